import assert from 'node:assert/strict';
import { test } from 'node:test';

import { tellVerdict, tellWhy } from '../../../playground/ui/browser/lanes.js';
import { emptyLog, receive } from '../../../playground/ui/browser/log.js';
import { ratios } from '../../../playground/ui/browser/figures.js';
import { settingsTold } from '../../../playground/ui/browser/settings.js';
import { places, speedup, why } from '../../../playground/ui/browser/speed.js';
import { baselineOf, verdict } from '../../../playground/ui/browser/verdict.js';
import { STATUSES } from '../../../playground/ui/browser/statuses.js';

const lane = (rest = {}) => ({
  method: 'draft-model',
  title: 'Draft model',
  settings: {},
  models: { target: 't' },
  sampling: { temperature: 0, seed: 1 },
  lossless: 'ids',
  dtype: 'float32',
  prompt_ids: [1, 2],
  prompt_pieces: ['a', 'b'],
  notices: [],
  ...rest,
});
const PLAIN = lane({ method: 'autoregressive', title: 'Autoregressive' });

// A step that emits `ids`, of which all but the last are accepted guesses out of `proposed`.
function step(ids, { proposed = 0, finish = null, p = null, rows = 1 + proposed, ...seconds } = {}) {
  const nodes = proposed && {
    n: proposed,
    parent: Array.from({ length: proposed }, (_, at) => at - 1),
    token: 7,
    status: Array.from({ length: proposed }, (_, at) =>
      STATUSES.indexOf(at < ids.length - 1 ? 'accepted' : 'rejected'),
    ),
  };
  const roles = ids.map((_, at) => STATUSES.indexOf(at < ids.length - 1 ? 'accepted' : 'plain'));
  return {
    nodes,
    emitted: { n: ids.length, token: ids, status: roles },
    rows,
    finish,
    seconds: { forward: 0.01, ...seconds },
    detail: p ? [{ node: -1, p, p_rest: 0, q: [], q_rest: 0, residual: [], residual_rest: 0 }] : [],
  };
}

function race(lanes, ...steps) {
  const header = JSON.stringify({ title: '', machine: '', recorded: '', lanes });
  return [
    { run: 'a', seq: 0, live: true, header },
    { run: 'a', seq: 1, steps },
  ].reduce(receive, emptyLog());
}
const badge = (log, at = 1, head = Infinity) => verdict(log, head, at);
const told = (found) =>
  tellVerdict(found)
    .map((part) => part.token ?? part)
    .join('');

test('without an autoregressive lane of the same prompt, target and sampling there is no verdict', () => {
  for (const other of [
    lane(),
    { ...PLAIN, prompt_ids: [1] },
    { ...PLAIN, models: { target: 'u' } },
    { ...PLAIN, sampling: { temperature: 0, seed: 2 } },
  ]) {
    const log = race([other, lane()], [0, step([5])], [1, step([5])]);
    assert.equal(baselineOf(log, 1), -1);
    assert.equal(badge(log), null);
    assert.equal(speedup(log, Infinity, 1), null);
  }
});

test('the baseline may be any lane, and is none of the judged', () => {
  const log = race([lane(), PLAIN], [0, step([5, 6])], [1, step([5])]);
  assert.equal(baselineOf(log, 0), 1);
  assert.deepEqual(badge(log, 1), { kind: 'baseline' });
  assert.deepEqual(tellVerdict(badge(log, 1)), []);
});

test('same ids: as far as both have written, and in the end all of them', () => {
  const steps = [
    [0, step([5])],
    [1, step([5, 6, 8])],
    [0, step([6])],
    [0, step([8], { finish: 'length' })],
  ];
  const log = race([PLAIN, lane()], ...steps);
  assert.deepEqual([badge(log, 1, 1).kind, badge(log, 1, 2).compared, badge(log, 1, 3).compared], ['waiting', 1, 2]);
  assert.equal(told(badge(log, 1, 3)), 'the first 2 tokens');
  assert.equal(badge(log, 1, 4).whole, false);
  const ended = race([PLAIN, lane()], ...steps, [1, step([], { finish: 'length' })]);
  assert.deepEqual([badge(ended).kind, badge(ended).whole], ['same', true]);
  assert.equal(told(badge(ended)), 'all 3 tokens');
});

test('other ids where the same were promised: the position, the two tokens, and whether rounding explains it', () => {
  const parted = (p, rest = {}) =>
    badge(race([{ ...PLAIN, ...rest }, lane(rest)], [0, step([5])], [0, step([6], { p })], [1, step([5, 8])]));
  const near = parted([
    [6, 0.40001],
    [8, 0.4],
  ]);
  assert.deepEqual([near.kind, near.at], ['parted', 1]);
  assert.deepEqual(near.odds, { our: { token: 8, p: 0.4 }, their: { token: 6, p: 0.40001 }, tie: true });
  assert.match(told(near), /^from token 2 on: 8 where autoregressive has 6; the target gives them 40\.0 % and 40\.0 %\. A near-tie/);
  const far = [
    [6, 0.5],
    [8, 0.4],
  ];
  assert.equal(parted(far).odds.tie, false);
  assert.match(told(parted(far)), /a bug/);
  assert.equal(parted(far, { dtype: 'bfloat16' }).odds.tie, true);
  assert.equal(parted(far, { sampling: { temperature: 1 } }).odds.tie, null);
  const silent = parted(null);
  assert.deepEqual([silent.odds.our.p, silent.odds.tie], [null, null]);
  assert.equal(told(silent), 'from token 2 on: 8 where autoregressive has 6.');
});

test('a text that ends early differs where it ends', () => {
  const log = race(
    [PLAIN, lane()],
    [0, step([5])],
    [1, step([5], { finish: 'eos' })],
    [0, step([6], { finish: 'eos' })],
  );
  assert.deepEqual([badge(log).kind, badge(log).at], ['parted', 1]);
  assert.match(told(badge(log)), /after 1 tokens? one of the two ended/);
});

test('what a method does not promise is no defect', () => {
  const kinds = ['distribution', 'lossy', 'unknown'].map((lossless) => {
    const log = race([PLAIN, lane({ lossless })], [0, step([5])], [1, step([6])]);
    assert.equal(badge(log).odds, null);
    const draws = lossless === 'distribution' ? 'other draws, so ' : '';
    assert.equal(told(badge(log)), `${draws}other text from token 1 on`);
    return badge(log).kind;
  });
  assert.deepEqual(kinds, ['law', 'lossy', 'unpromised']);
  const alike = race([PLAIN, lane({ lossless: 'lossy' })], [0, step([5])], [1, step([5])]);
  assert.deepEqual([badge(alike).kind, told(badge(alike))], ['lossy', 'same text so far']);
});

test('speed is tokens per second by each lane’s own clock, and finishing has an order', () => {
  const log = race(
    [PLAIN, lane()],
    [0, step([5], { prefill: 0.01 })],
    [1, step([5, 6, 8], { proposed: 2, finish: 'length' })],
    [0, step([6], { finish: 'length', wait: 9 })],
  );
  assert.equal(speedup(log, Infinity, 0), 1);
  assert.ok(Math.abs(speedup(log, Infinity, 1) - 300 / (2 / 0.03)) < 1e-9);
  assert.deepEqual(places(log, 2), [null, 1]);
  assert.deepEqual(places(log, 3), [2, 1]);
  assert.deepEqual(places(race([PLAIN], [0, step([5], { finish: 'eos' })]), 1), [null]);
});

test('a lane says why it is slower, from what it measured', () => {
  const of = (...mine) => why(race([PLAIN, lane()], [0, step([5])], ...mine.map((one) => [1, one])), Infinity, 1);
  const good = { proposed: 3 };
  assert.equal(of(step([5, 6, 8], good)).key, 'wins');
  assert.match(tellWhy(of(step([5, 6, 8], good))), /3\.00 tokens a pass instead of 1\.00; .* 1\.00× as long/);
  const few = of(step([5], { ...good, draft: 0.02 }));
  assert.equal(few.key, 'few');
  assert.match(tellWhy(few), /\(0 of 3\).*1\.00 tokens a pass instead of 1\.00; .* 3\.00×/);
  const dear = of(step([5, 6], { ...good, draft: 0.05 }));
  assert.equal(dear.key, 'draft');
  assert.match(tellWhy(dear), /83 % of its time/);
  const wide = of(step([5, 6], { ...good, forward: 0.05, rows: 64 }));
  assert.equal(wide.key, 'forward');
  assert.match(tellWhy(wide), /over 64 tokens takes 50\.0 ms, the baseline’s over one 10\.0 ms\. 2\.00 tokens/);
  assert.equal(of(step([5, 6], { ...good, bookkeeping: 0.05 })).key, 'overhead');
  assert.equal(of(step([5], { forward: 0.011 })).key, 'nothing');
  const late = of(step([5, 6, 8], { ...good, prefill: 0.09 }));
  assert.equal(late.key, 'prompt');
  assert.match(tellWhy(late), /reading the prompt took longer/);
});

test('the numbers of the reason are those of the figures, and their quotient is the speed-up', () => {
  const read = { prefill: 0.004, forwards: 2 };
  const mine = [step([5, 6, 8], { proposed: 3, draft: 0.002 }), step([5, 6], { proposed: 3 })];
  const log = race(
    [PLAIN, lane()],
    [0, { ...step([5]), ...read }],
    [0, step([6])],
    ...mine.map((one, at) => [1, at ? one : { ...one, forwards: 2 }]),
  );
  const { gain, base, cost } = why(log, Infinity, 1);
  const [theirs, ours] = log.lanes.map(({ tracks }) => ratios(tracks[0].totals.at(-1)).tokensPerPass);
  assert.deepEqual([gain, base], [ours, theirs]);
  assert.ok(Math.abs(gain / base / cost - speedup(log, Infinity, 1)) < 1e-12);
});

test('a batch is slower for each of its sequences, and says what they make together', () => {
  const batched = [0, 1].map((row) => ({ ...step([5], { forward: 0.01, others: 0.01 }), row }));
  for (const method of ['naive-batching', 'draft-model']) {
    const log = race([PLAIN, lane({ method })], [0, step([5])], [1, batched[0]], [1, batched[1]]);
    assert.equal(why(log, Infinity, 1).key, 'batch');
    assert.match(tellWhy(why(log, Infinity, 1)), /serve 2 of them\. Together they make 100 tokens/);
  }
});

test('a lane that never guesses needs no excuse', () => {
  const other = lane({ method: 'autoregressive' });
  const log = race([PLAIN, other], [0, step([5])], [1, step([5], { forward: 0.02 })]);
  assert.equal(why(log, Infinity, 1).key, 'plain');
});

test('the baseline says that the pass over the prompt counts, where it does', () => {
  const plain = (rest) => tellWhy(why(race([PLAIN], [0, { ...step([5]), ...rest }]), 1, 0));
  assert.match(plain({ forwards: 2 }), /none from the pass that read the prompt: 1 token from 2 passes/);
  assert.match(plain({ forwards: 4 }), /none from the 3 passes that read the prompt: 1 token from 4 passes/);
  assert.doesNotMatch(plain({}), /prompt/);
});

test('lanes of one method are told apart by what differs', () => {
  const titles = (...lanes) => race(lanes).lanes.map(({ title }) => title);
  const k = (n) => lane({ settings: { k: n, max_ngram: 3 } });
  assert.deepEqual(titles(PLAIN, k(4), k(8)), ['Autoregressive', 'Draft model · k 4', 'Draft model · k 8']);
  assert.deepEqual(titles(k(4), k(4)), ['Draft model · 1', 'Draft model · 2']);
});

test('settings are told in words, and those that are switched off are not', () => {
  assert.equal(settingsTold({ k: 4, confidence: 0, batch: 1 }), '4 guesses a step (k)');
  assert.match(settingsTold({ k: 4, confidence: 0.3, batch: 2 }), /below 0\.3 \(confidence\) · 2 sequences in a pass$/);
  const medusa = { tree: 'auto', posterior_threshold: 0.09, posterior_alpha: 0.3 };
  assert.equal(settingsTold({ ...medusa, acceptance: 'exact' }), 'tree of guesses: auto');
  assert.match(settingsTold({ acceptance: 'typical', ...medusa }), /^typical acceptance · .* · keeps above 0\.09 · alpha 0\.3$/);
  assert.equal(settingsTold({ server: 'vLLM', model: 'm' }), 'server vLLM · model m');
});
