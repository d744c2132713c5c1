import assert from 'node:assert/strict';
import { test } from 'node:test';

import { unpackStep } from '../../../playground/ui/browser/log.js';
import { barsOf, cacheRows, isVeiled, testOf, trialsOf, unjudged } from '../../../playground/ui/browser/trials.js';
import { chain, plain, tree } from './steps.mjs';

const trials = (packed) =>
  trialsOf(unpackStep(packed)).map(({ at, guesses, taken, own }) => [at, guesses, taken, own?.status]);
const said = (node, p = []) => ({ node, p, p_rest: 0, q: [], q_rest: 0, residual: [], residual_rest: 0 });

test('a chain has a trial per judged guess, and the last one gave the target’s own token', () => {
  assert.deepEqual(trials(chain('aarn')), [
    [-1, [0], 0, undefined],
    [0, [1], 1, undefined],
    [1, [2], -1, 'corrected'],
  ]);
});

test('after right guesses only there is one trial more, without a guess', () => {
  assert.deepEqual(trials(chain('a', 'bonus')), [
    [-1, [0], 0, undefined],
    [0, [], -1, 'bonus'],
  ]);
  assert.deepEqual(trials(plain()), [[-1, [], -1, 'plain']]);
});

test('a block cut at an accepted token ends with its trial', () => {
  assert.deepEqual(trials(chain('aan', null)), [
    [-1, [0], 0, undefined],
    [0, [1], 1, undefined],
  ]);
});

test('in a tree all siblings were guesses of one place', () => {
  const found = trials(tree([-1, -1, 1, 1], 'rarr'));
  assert.deepEqual(found, [
    [-1, [0, 1], 1, undefined],
    [1, [2, 3], -1, 'corrected'],
  ]);
});

test('a trial has what was recorded where the target was asked', () => {
  const step = unpackStep(chain('ar', 'corrected', { detail: [said(-1), said(0, [[5, 0.5]])] }));
  assert.deepEqual(
    trialsOf(step).map((trial) => trial.said.p),
    [[], [[5, 0.5]]],
  );
  assert.equal(trialsOf(unpackStep(chain('r')))[0].said, null);
});

test('a guess tells by its numbers how it was judged', () => {
  const node = (rest) => ({ status: 'rejected', threshold: null, u: null, ...rest });
  assert.equal(testOf(node({ threshold: 0.2, u: 0.5 })), 'ratio');
  assert.equal(testOf(node({ threshold: 0.2 })), 'typical');
  assert.equal(testOf(node({ u: 0.5 })), 'draw');
  assert.equal(testOf(node({})), 'best');
  assert.equal(testOf(node({ status: 'never-reached', u: 0.5 })), 'none');
});

test('what was never judged is known by its depth', () => {
  assert.deepEqual(
    [...unjudged(unpackStep(tree([-1, 0, 0, 2], 'rnnn')))],
    [
      [2, [1, 2]],
      [3, [3]],
    ],
  );
});

const eight = (first) => Array.from({ length: 8 }, (_, at) => [first + at, 0.08 - at / 100]);

test('bars: the marked tokens are always among them, in the order of the target', () => {
  const law = { p: eight(0), q: eight(20), residual: [] };
  const nodes = [{ token: 50, p: 0.001, q: 0.3 }];
  const { rows, least } = barsOf(
    law,
    nodes,
    new Map([
      [50, 'rejected'],
      [7, 'corrected'],
    ]),
    5,
  );
  assert.deepEqual(
    rows.map((row) => row.token),
    [0, 1, 7, 50, 20],
  );
  assert.deepEqual(rows[3], { token: 50, mark: 'rejected', p: 0.001, q: 0.3, residual: null });
  assert.deepEqual([rows[0].q, rows[4].p], [null, null], 'below what was kept: not known');
  assert.ok(Math.abs(least.p - 0.01) < 1e-9);
  const emitted = { ...law, p: [...law.p, [60, 0.0001]] };
  assert.equal(barsOf(emitted, nodes, new Map()).least.p, least.p, 'the emitted token may come after the eight');
});

test('bars: a short list is all there is, and no draft is no column', () => {
  const { rows, rest } = barsOf(
    {
      p: [
        [1, 0.75],
        [2, 0.25],
      ],
      q: [[3, 1]],
      residual: [[1, 1]],
    },
    [],
    new Map(),
  );
  assert.deepEqual(
    rows.map(({ token, p, q, residual }) => [token, p, q, residual]),
    [
      [1, 0.75, 0, 1],
      [2, 0.25, 0, 0],
      [3, 0, 1, 0],
    ],
  );
  assert.deepEqual(rest, { p: 0, q: 0, residual: 0 });
  const plainLaw = barsOf({ p: [[1, 1]], q: [], residual: [] }, [], new Map());
  assert.deepEqual([plainLaw.rows[0].q, plainLaw.rest.q], [null, null]);
});

test('bars: the residual of a token that the draft likes better is nothing, listed or not', () => {
  const law = { p: eight(0), q: eight(0), residual: eight(30) };
  assert.equal(
    barsOf(law, [{ token: 9, p: 0.001, q: 0.002 }], new Map([[9, 'rejected']])).rows.find((row) => row.token === 9)
      .residual,
    0,
  );
});

test('rows of the cache: what was fed and what was accepted stays', () => {
  const rows = (packed) => cacheRows(unpackStep({ cache_before: 10, ...packed }));
  assert.deepEqual(rows(chain('aarn', 'corrected', { rows: 5, cache_after: 13 })), {
    before: 10,
    fed: 1,
    nodes: [true, true, false, false],
    side: 0,
    after: 13,
  });
  assert.deepEqual(
    rows(chain('aan', null, { rows: 6, side_rows: 2, cache_after: 12 })).nodes,
    [true, false, false],
    'a stop leaves the last out',
  );
  assert.equal(rows({ ...plain(), rows: 4, side_rows: 3, cache_after: 11 }).fed, 1);
});

test('a step whose verdict is hidden has one open place, and all guesses behind it are only guessed', () => {
  const step = unpackStep(chain('aarn'));
  const hidden = {
    ...step,
    emitted: [],
    detail: [],
    nodes: step.nodes.map((node) => ({ ...node, status: 'proposed' })),
  };
  assert.ok(isVeiled(hidden) && !isVeiled(step));
  assert.deepEqual(
    trialsOf(hidden).map(({ guesses, taken, own }) => [guesses, taken, own]),
    [[[0], -1, null]],
  );
  assert.deepEqual([...unjudged(hidden).keys()], [1, 2, 3, 4]);
  assert.equal(testOf(hidden.nodes[0]), 'none');
});
