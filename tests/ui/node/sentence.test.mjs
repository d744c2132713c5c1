import assert from 'node:assert/strict';
import { test } from 'node:test';

import { unpackStep } from '../../../playground/ui/browser/log.js';
import { chance, depthOf, lost, short, tell } from '../../../playground/ui/browser/sentence.js';
import { chain, plain, tree } from './steps.mjs';

const told = (packed) =>
  tell(unpackStep(packed)).map((parts) =>
    parts.map((part) => (part.token === undefined ? part : `<${part.status} ${part.token}>`)).join(''),
  );

test('a correction names what was put in place of what', () => {
  const [story] = told(chain('aarn'));
  assert.match(story, /^4 tokens were proposed, 2 accepted\./);
  assert.match(story, /put <corrected 99> where the draft had <rejected 12>/);
});

test('nothing accepted', () => {
  assert.match(told(chain('rnn'))[0], /none accepted.*<corrected 99>.*<rejected 10>/);
  assert.match(told(chain('r'))[0], /^One token was proposed: <rejected 10>/);
});

test('everything accepted gives a bonus', () => {
  assert.match(told(chain('aaaa', 'bonus'))[0], /All 4 .*<bonus 99> as a bonus: 5 tokens/);
  assert.match(told(chain('a', 'bonus'))[0], /^The one proposed token/);
});

test('no guess says why', () => {
  assert.match(told(plain({ reason: 'no match' }))[0], /No guess in this step: no match\. .*<plain 99>/);
  assert.match(told(plain())[0], /One pass of the target, one token: <plain 99>/);
});

test('the odds are told where they decided', () => {
  const step = chain('ar');
  Object.assign(step.nodes, { p: [0.5, 0.12], q: [0.5, 0.41], u: [0.1, 0.62], threshold: [1, 0.2927] });
  assert.match(told(step)[1], /Probability of <rejected 11>: target 12 %, draft 41 %\..*p\/q = 29 %; the random draw, 62 %, lay above/);
  assert.equal(told(chain('ar')).length, 1);
});

test('trees are told as trees', () => {
  assert.match(told(tree([-1, -1, 0], 'arr'))[0], /tree of 3 candidates, 2 deep.*for 1 token .*<corrected 99>/);
  assert.match(told(tree([-1, -1, 0], 'ara', 'bonus'))[0], /one branch to its end.*3 tokens from one pass/);
  assert.match(told(tree([-1, -1], 'rr'))[0], /none was the target’s own token/);
});

test('a run that ends says why, also when a stop cut the block', () => {
  assert.deepEqual(told(chain('aan', null, { finish: 'stop' })), [
    '3 tokens were proposed; 2 of them entered the text before the run ended.',
    'The run ends: a stop string was reached.',
  ]);
  assert.match(told(chain('ar', 'corrected', { finish: 'a new reason' })).at(-1), /a new reason/);
});

test('the token that lost is the first rejected child where the target left the tree', () => {
  assert.equal(lost(unpackStep(tree([-1, -1, 1, 1], 'rarr'))).token, 12);
  assert.equal(lost(unpackStep(chain('aa', 'bonus'))), undefined);
});

test('depth and numbers', () => {
  assert.equal(depthOf(unpackStep(tree([-1, 0, 0, 2], 'rnnn')).nodes), 3);
  assert.equal(depthOf([]), 0);
  assert.deepEqual([0, 1, 0.5, 0.00012, 0.9996].map(short), ['0', '1', '0.500', '1.2·10⁻⁴', '0.9996']);
});

test('of a server’s step only what it counted is told', () => {
  const step = (view, status) => unpackStep({ ...chain('', status), view });
  assert.match(tell(step({ drafted: 4, accepted: 3 }, 'corrected'))[0].join(''), /counted 4 proposed .* and 3 accepted/);
  assert.match(tell(step({}, 'unknown'))[0].join(''), /does not tell how/);
});

test('a probability as a percentage never rounds to none or to certainty', () => {
  const told = [0, 0.0000023, 0.00099, 0.001, 0.0231, 0.312, 0.9967, 0.9999, 1].map((value) => chance(value));
  assert.deepEqual(told, [
    '0 %',
    'under 0.1 %',
    'under 0.1 %',
    '0.10 %',
    '2.3 %',
    '31 %',
    '99.7 %',
    'over 99.9 %',
    '100 %',
  ]);
});
