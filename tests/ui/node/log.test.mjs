import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countAt, emptyLog, pieceOf, receive, stop, trackOf } from '../../../playground/ui/browser/log.js';
import { chain, more, opening, plain, tree } from './steps.mjs';

const after = (...messages) => messages.reduce(receive, emptyLog());
const steps = (log, lane = 0) => trackOf(log, lane)?.steps.length ?? 0;

test('steps go to their lanes, in order of arrival', () => {
  const log = after(
    opening(),
    more(1, [
      [0, plain()],
      [1, chain('ar')],
    ]),
    more(2, [[0, plain()]]),
  );
  assert.deepEqual(
    log.order.map(({ lane }) => lane),
    [0, 1, 0],
  );
  assert.deepEqual([steps(log, 0), steps(log, 1)], [2, 1]);
});

test('a message that comes twice is taken in once', () => {
  const log = after(opening(), more(1, [[0, plain()]]), more(1, [[0, plain()]]));
  assert.equal(steps(log), 1);
  assert.equal(log.lost, 0);
});

test('a message that is missing is counted', () => {
  const log = after(opening(), more(1, [[0, plain()]]), more(4, [[0, plain()]]));
  assert.equal(log.lost, 2);
});

test('messages of another run are ignored until one opens it', () => {
  const log = after(opening(), more(1, [[0, plain()]]), { ...more(1, [[0, plain()]]), run: 'b' });
  assert.equal(steps(log), 1);
  const next = receive(log, opening('b'));
  assert.equal(steps(next), 0);
  assert.equal(steps(receive(next, { ...more(1, [[0, plain()]]), run: 'b' })), 1);
});

test('after a stop no step is taken in', () => {
  const log = stop(after(opening(), more(1, [[0, plain()]])));
  assert.equal(log.end, 'stopped');
  assert.equal(steps(receive(log, more(2, [[0, plain()]]))), 1);
  assert.equal(receive(log, more(3, [], { end: 'done' })).end, 'stopped');
});

test('a stop changes neither a finished run nor an empty stage', () => {
  assert.equal(stop(after(opening(), more(1, [], { end: 'done' }))).end, 'done');
  assert.equal(stop(emptyLog()).end, null);
});

test('a notice leaves the run as it is', () => {
  const log = after(opening(), more(1, [[0, plain()]]), { notice: { kind: 'error', text: 'No.' } });
  assert.equal(steps(log), 1);
  assert.equal(log.notice.text, 'No.');
  assert.equal(receive(log, opening('b')).notice, null);
});

test('the other rows of a batch are tracks of their own', () => {
  const log = after(
    opening(),
    more(1, [
      [0, plain()],
      [0, plain({ row: 1 })],
      [0, plain()],
    ]),
  );
  assert.equal(steps(log), 2);
  assert.equal(log.lanes[0].tracks[1].steps.length, 1);
  assert.equal(log.order.length, 3);
});

test('how many steps of a lane lie before a position', () => {
  const log = after(
    opening(),
    more(1, [
      [0, plain()],
      [1, plain()],
      [1, plain()],
      [0, plain()],
    ]),
  );
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((head) => countAt(trackOf(log, 0), head)),
    [0, 1, 1, 1, 2],
  );
  assert.equal(countAt(undefined, 3), 0);
});

test('a node keeps its place whatever else is proposed', () => {
  const log = after(
    opening(),
    more(1, [
      [0, tree([-1, 0], 'rn')],
      [0, tree([-1, -1, 0, 1], 'rann')],
      [0, tree([-1, 0, -1, 0], 'rnnn')],
    ]),
  );
  const [one, two, three] = trackOf(log, 0).steps.map((step) => step.places);
  assert.deepEqual([one[0], one[1]], [two[0], two[2]]);
  assert.deepEqual([three[0], three[1], three[2]], [one[0], one[1], two[1]]);
  assert.equal(new Set([...one, ...two, ...three]).size, 5);
});

test('a label sent with one sequence of a batch names the token in all of them', () => {
  const log = after(
    opening(),
    more(1, [
      [0, plain()],
      [0, plain({ row: 1, pieces: { 7: ' seven' } })],
    ]),
  );
  assert.equal(pieceOf(log.lanes[0].tracks[0], 7), ' seven');
  assert.equal(pieceOf(log.lanes[0].tracks[1], 7), ' seven');
});
