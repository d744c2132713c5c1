// The Measure room's figures, sentences and table cells, as functions of what the server tells.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { duration, sentence } from '../../../playground/ui/browser/measure.js';
import { expectedFigure, positionsFigure, speedFigure, themed } from '../../../playground/ui/browser/measure_figures.js';
import { verdict } from '../../../playground/ui/browser/measure_table.js';
import { prediction } from '../../../playground/ui/browser/what_if.js';

const COLOURS = { ink: '#000', muted: '#555', line: '#eee', paper: '#fff', lanes: ['#1', '#2', '#3', '#4'], font: 'x' };
const BASE = {
  lane: 'autoregressive',
  category: 'overall',
  tokens_per_second: 50,
  speedups: {},
  tokens_per_pass: 1,
  by_position: [],
  shares: { draft: 0, forward: 0.9, other: 0.1 },
};
const lane = (median, low, high) => ({
  ...BASE,
  lane: 'draft-model k=2',
  tokens_per_second: 50 * median,
  speedups: { autoregressive: { median, low, high } },
  tokens_per_pass: 2,
  by_position: [0.7, 0.4],
  shares: { draft: 0.5, forward: 0.4, other: 0.1 },
});

test('bars are speed-ups with the whole range of the rounds', () => {
  const { data, layout } = speedFigure([BASE, lane(1.5, 1.25, 2)], ['autoregressive'], COLOURS);
  assert.equal(data.length, 1, 'the baseline has no bar');
  assert.deepEqual(data[0].y, [1.5]);
  assert.deepEqual([data[0].error_y.array, data[0].error_y.arrayminus], [[0.5], [0.25]]);
  assert.equal(layout.shapes[0].y0, 1);
  assert.equal(speedFigure([BASE], ['autoregressive'], COLOURS), null);
});

test('names of lanes are no markup', () => {
  const { data } = speedFigure([BASE, { ...lane(1, 1, 1), lane: 'medusa <b>' }], ['autoregressive'], COLOURS);
  assert.equal(data[0].name, 'medusa &lt;b&gt;');
});

test('acceptance is drawn from the first position on', () => {
  const { data } = positionsFigure([BASE, lane(1, 1, 1)], COLOURS);
  assert.deepEqual([data[0].x, data[0].y], [[1, 2], [0.7, 0.4]]);
  assert.equal(positionsFigure([BASE], COLOURS), null);
});

test('a lane is faster or slower only where all rounds agree, and says why', () => {
  assert.match(verdict(lane(1.5, 1.1, 2), BASE), /^Faster: 2.00 times the tokens per pass, each taking 1.33 times/);
  assert.match(verdict(lane(1.5, 1.1, 2), BASE), /50 % of its time goes into drafting/);
  assert.match(verdict(lane(0.8, 0.7, 0.9), BASE), /^Slower: .*2.50 times as long/);
  assert.match(verdict(lane(1.1, 0.9, 1.2), BASE), /^As fast:/);
  assert.equal(verdict({ ...lane(1, 1, 1), speedups: {} }, BASE), '');
});

test('every phase has its sentence, and the time left is told when it is known', () => {
  const order = { target: 'built-in', rounds: 3 };
  for (const phase of ['idle', 'loading', 'judging', 'done', 'paused', 'failed'])
    assert.ok(sentence({ phase, order }).length > 8, phase);
  const going = { phase: 'measuring', order, done: 4, of: 12, round: 1, left: null };
  assert.match(sentence(going), /round 2 of 3: 4 of 12 answers/);
  assert.doesNotMatch(sentence(going), /left/);
  assert.match(sentence({ ...going, left: 90 }), /About 90 seconds left/);
  assert.match(sentence({ phase: 'paused', order, out_of_time: true }), /time for one go is over/);
  assert.equal(duration(600), '10 minutes');
});

test('a prediction says that it is one, and what was measured', () => {
  const told = { tokens: 2.5, speedup: 1.4, cost: 'curve', seen: 1.3 };
  assert.match(prediction(told, false), /^Predicted: 1.40 times.*Measured with these settings: 1.30/);
  assert.match(prediction(told, true), /Measured where the panel started/);
  assert.doesNotMatch(prediction({ ...told, seen: null, cost: 'free' }, false), /Measured/);
});

test('the place where the panel stands is marked', () => {
  const { data } = expectedFigure([[1, 1.1], [2, 1.3], [4, 1.2]], 2, 'K', COLOURS);
  assert.deepEqual([data[1].x, data[1].y], [[2], [1.3]]);
});

test('figures of the server take the colours of the theme', () => {
  const figure = {
    data: [{ type: 'scatter', x: [1], y: [2], marker: { color: '#111' } }],
    layout: { annotations: [{ text: 'limit' }], xaxis: { type: 'log' }, yaxis: {}, title: { text: 'x' } },
  };
  const { data, layout } = themed(figure, COLOURS);
  assert.equal(data[0].marker.color, '#000');
  assert.equal(layout.annotations[0].font.color, '#000');
  assert.equal(layout.xaxis.type, 'log');
  assert.equal(layout.title, undefined, 'the caption says it');
});
