import assert from 'node:assert/strict';
import { test } from 'node:test';

import { emptyLog, receive, trackOf, countAt } from '../../../playground/ui/browser/log.js';
import {
  atEnd,
  isLive,
  nextBoundary,
  position,
  previousBoundary,
  seek,
  tick,
  tickSeconds,
  toggle,
  walk,
} from '../../../playground/ui/browser/playhead.js';
import { more, opening, plain } from './steps.mjs';

// Lanes of the steps in order of arrival; the focused lane is 1 and finishes before lane 0 does.
const ORDER = [0, 1, 0, 0, 1, 0, 1, 0, 0];
const make = (end) =>
  [
    opening(),
    more(
      1,
      ORDER.map((lane) => [lane, plain()]),
      end && { end },
    ),
  ].reduce(receive, emptyLog());
const done = make('done');
const live = make();

test('a step forward is one step of the focused lane', () => {
  let play = seek(done, 0);
  const heads = [];
  for (let at = 0; at < 6; at += 1) heads.push((play = walk(play, done, 1, 1)).head);
  assert.deepEqual(heads, [2, 5, 7, 9, 9, 9]);
  assert.deepEqual(
    heads.slice(0, 3).map((head) => countAt(trackOf(done, 1), head)),
    [1, 2, 3],
  );
});

test('steps back return where the steps forward came from', () => {
  let play = atEnd;
  const heads = [];
  for (let at = 0; at < 6; at += 1) heads.push((play = walk(play, done, 1, -1)).head);
  assert.deepEqual(heads, [7, 5, 2, 0, 0, 0]);
});

test('ten steps are ten single ones', () => {
  assert.equal(walk(seek(done, 0), done, 0, 3).head, 4);
  assert.equal(walk(seek(done, 0), done, 1, 10).head, ORDER.length);
});

test('between two steps of the focused lane both directions lead to its boundaries', () => {
  assert.equal(nextBoundary(done, 3, 1), 5);
  assert.equal(previousBoundary(done, 3, 1), 2);
});

test('seeking stays within the run', () => {
  assert.equal(seek(done, -4).head, 0);
  assert.equal(seek(done, 400).head, ORDER.length);
});

test('play starts a finished run over, and pauses when pressed again', () => {
  const playing = toggle(atEnd, done);
  assert.deepEqual(playing, { head: 0, playing: true });
  assert.deepEqual(toggle({ head: 3, playing: true }, done), { head: 3, playing: false });
});

test('pausing a live run holds its position while steps go on arriving', () => {
  const paused = toggle(atEnd, live);
  assert.deepEqual(paused, { head: ORDER.length, playing: false });
  const grown = receive(make(), more(2, [[0, plain()]]));
  assert.equal(position(paused, grown), ORDER.length);
  assert.equal(position(atEnd, grown), ORDER.length + 1);
  assert.ok(isLive(grown));
});

test('playback runs to the end and rests there', () => {
  let play = seek(done, 0);
  for (let at = 1; at < ORDER.length; at += 1) assert.deepEqual((play = tick(play, done)), { head: at, playing: true });
  assert.deepEqual(tick(play, done), atEnd);
});

test('the focused lane keeps the chosen speed, the others fall in between', () => {
  for (const [from, until] of [
    [0, 2],
    [2, 5],
    [5, 7],
  ]) {
    let seconds = 0;
    for (let head = from; head < until; head += 1) seconds += tickSeconds({ head }, done, 1, 2);
    assert.ok(Math.abs(seconds - 0.5) < 1e-9);
  }
});

test('an empty stage can be played without harm', () => {
  const empty = emptyLog();
  assert.equal(position(toggle(atEnd, empty), empty), 0);
  assert.equal(walk(atEnd, empty, 0, 1).head, 0);
  assert.deepEqual(tick(atEnd, empty), atEnd);
  assert.ok(tickSeconds(atEnd, empty, 0, 2) > 0);
});
