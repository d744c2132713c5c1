// The Train room's figures and sentences, as functions of what the workshop tells.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { accuracyFigure, lossFigure, sentence } from '../../../playground/ui/browser/train.js';

const COLOURS = { ink: '#000', muted: '#555', line: '#eee', paper: '#fff', lanes: ['#1', '#2', '#3', '#4'], font: 'x' };
const STATE = {
  loss: [
    [1, 9.5],
    [2, 9.25],
  ],
  checks: [
    [1, 9.6, 0.1, 0.05],
    [2, 9.4, 0.2, 0.1],
  ],
};

test('both losses are drawn by step', () => {
  const { data } = lossFigure(STATE, COLOURS);
  assert.deepEqual(
    data.map(({ x, y }) => [x, y]),
    [
      [
        [1, 2],
        [9.5, 9.25],
      ],
      [
        [1, 2],
        [9.6, 9.4],
      ],
    ],
  );
});

test('every head has a line, told apart by colour and dash', () => {
  const { data } = accuracyFigure(STATE, COLOURS);
  assert.deepEqual(
    data.map(({ y }) => y),
    [
      [0.1, 0.2],
      [0.05, 0.1],
    ],
  );
  assert.notEqual(data[0].line.color, data[1].line.color);
  assert.notEqual(data[0].line.dash, data[1].line.dash);
});

test('before anything was learned there are no lines', () => {
  assert.deepEqual(lossFigure({ loss: [], checks: [] }, COLOURS).data, []);
  assert.deepEqual(accuracyFigure({ loss: [], checks: [] }, COLOURS).data, []);
});

test('every phase has its sentence', () => {
  const order = { family: 'built-in' };
  for (const phase of ['idle', 'loading', 'writing', 'learning', 'judging', 'done', 'paused', 'failed'])
    assert.ok(sentence({ phase, done: 3, of: 9, seconds: 4, order }).length > 10, phase);
  assert.match(sentence({ phase: 'learning', done: 3, of: 9, seconds: 4, order }), /step 3 of 9/);
  assert.match(sentence({ phase: 'writing', done: 3, of: 9, seconds: 4, order }), /built-in writes.*3 of at most 9/);
});
