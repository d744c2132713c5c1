import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asked as askedLesson } from '../../../playground/ui/browser/lessons.js';
import { emptyLog, receive, trackOf } from '../../../playground/ui/browser/log.js';
import { NO_VOTES, asked, canHide, veil, vote } from '../../../playground/ui/browser/predict.js';
import { tell } from '../../../playground/ui/browser/sentence.js';
import { chain, more, opening, plain } from './steps.mjs';

const log = [
  opening(),
  more(1, [
    [0, plain()],
    [1, chain('aarn')],
    [0, plain()],
    [1, chain('rn')],
  ]),
].reduce(receive, emptyLog());

test('only a step of the focused lane that guessed can be hidden', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((head) => canHide(log, 1, head)),
    [false, false, true, false, true],
  );
  assert.ok([0, 1, 2, 3, 4].every((head) => !canHide(log, 0, head)));
});

test('a veiled step tells nothing of its verdict, and the other steps stay', () => {
  const before = JSON.stringify(log);
  const hidden = veil(log, 1, 4);
  const { steps, totals } = trackOf(hidden, 1);
  assert.deepEqual(
    steps[1].nodes.map(({ status, p, u }) => [status, p, u]),
    Array(2).fill(['proposed', null, null]),
  );
  assert.deepEqual(steps[1].emitted, []);
  assert.deepEqual(totals[1], totals[0]);
  assert.match(tell(steps[1])[0].join(''), /2 tokens are proposed/);
  assert.equal(steps[0], trackOf(log, 1).steps[0]);
  assert.equal(trackOf(hidden, 0), trackOf(log, 0));
  assert.equal(JSON.stringify(log), before);
});

test('a vote is right when it names the fate of the first guess', () => {
  assert.deepEqual(vote(NO_VOTES, asked(log, 1, 2), true), { right: 1, cast: 1, last: true });
  assert.deepEqual(vote(NO_VOTES, asked(log, 1, 4), true), { right: 0, cast: 1, last: false });
  assert.deepEqual(vote({ right: 1, cast: 1, last: true }, asked(log, 1, 4), false), { right: 2, cast: 2, last: true });
});

test('an address opens a lesson that there is, at a step that it has', () => {
  const lessons = [
    { id: 'a', steps: [1] },
    { id: 'b', steps: [1, 2, 3] },
  ];
  const at = (query) => askedLesson(lessons, new URLSearchParams(query));
  assert.deepEqual(at('lesson=b&step=2'), { lesson: 1, step: 1 });
  assert.deepEqual(at('lesson=b'), { lesson: 1, step: 0 });
  assert.deepEqual(at('lesson=b&step=99'), { lesson: 1, step: 2 });
  assert.deepEqual(at('lesson=b&step=<b>'), { lesson: 1, step: 0 });
  assert.equal(at('lesson=__proto__'), null);
  assert.equal(at(''), null);
});
