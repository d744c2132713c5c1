import assert from 'node:assert/strict';
import { test } from 'node:test';

import { textBefore } from '../../../playground/ui/browser/context.js';
import { emptyLog, receive, trackOf } from '../../../playground/ui/browser/log.js';
import { judgement, placeOf } from '../../../playground/ui/browser/proof.js';
import { word } from '../../../playground/ui/browser/words.js';
import { chain, more, plain } from './steps.mjs';

const LANE = {
  method: 'draft-model',
  title: 'Draft model',
  settings: { k: 3 },
  models: { target: 't', draft: 'd' },
  sampling: { temperature: 0.8 },
  dtype: 'float32',
  notices: [],
  prompt_ids: [1, 2],
  prompt_pieces: ['On', 'ce'],
};
const run = (...steps) =>
  [
    { run: 'a', seq: 0, live: true, header: JSON.stringify({ title: '', machine: '', recorded: '', lanes: [LANE] }) },
    more(
      1,
      steps.map((step) => [0, step]),
    ),
  ].reduce(receive, emptyLog());

test('a place is all tokens before the step on the stage, and who went on from there', () => {
  const log = run(chain('ar'), chain('aa', 'bonus'), plain());
  const ids = (head) => placeOf(log, 0, head).prompt_ids;
  assert.deepEqual(ids(0), [1, 2]);
  assert.deepEqual(ids(1), [1, 2]);
  assert.deepEqual(ids(2), [1, 2, 10, 99]);
  assert.deepEqual(ids(3), [1, 2, 10, 99, 10, 11, 99]);
  const { method, settings, models, sampling, dtype } = placeOf(log, 0, 2);
  assert.deepEqual(
    { method, settings, models, sampling, dtype },
    {
      method: 'draft-model',
      settings: { k: 3 },
      models: { target: 't', draft: 'd' },
      sampling: { temperature: 0.8 },
      dtype: 'float32',
    },
  );
  assert.deepEqual(placeOf(run(), 0, 0).prompt_ids, [1, 2], 'before any step');
});

test('the text before a step ends where the step begins', () => {
  const log = run(chain('ar'), chain('aa', 'bonus'));
  const text = (count, most = 100) => textBefore(log.lanes[0], trackOf(log, 0), count, most);
  assert.deepEqual([text(0), text(1), text(2)], ['Once', 'Once', 'Once x x']);
  assert.equal(text(2, 3), '…x x');
});

test('what a count says follows from its p-value and from what was promised', () => {
  const said = (rest) => judgement({ p_value: 0.25, promise: 'distribution', residual: true, ...rest });
  assert.equal(said({}), word('proof.fits', { share: 25 }));
  assert.equal(said({ p_value: 0.0011 }), word('proof.fits', { share: 1 }));
  assert.equal(said({ residual: false }), word('proof.fitsAnyway', { share: 25 }));
  assert.equal(said({ p_value: 0, residual: false }), word('proof.noResidual'));
  assert.equal(said({ p_value: 0, promise: 'lossy' }), word('proof.lossy'));
  assert.equal(said({ p_value: 0, promise: 'ids' }), word('proof.bug'));
});
