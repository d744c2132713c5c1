// Where in the log the visitor looks. All functions are pure: (playhead, log) in, playhead out.
//
// `head` counts the steps of all lanes that have happened; null follows the run. A visitor's step is one step of the
// focused lane; the other lanes move as far as they had come by then.

import { countAt, trackOf } from './log.js';

export const SPEEDS = [0.5, 1, 2, 5, 10, 20];

export const atEnd = { head: null, playing: false };
export const atStart = { head: 0, playing: true };

export const position = (play, log) => Math.min(play.head ?? Infinity, log.order.length);

export const isLive = (log) => log.run !== null && !log.end;

// Stepping goes from boundary to boundary: the start, the end, and the ends of the focused lane's steps.
export function nextBoundary(log, head, lane) {
  const track = trackOf(log, lane);
  const at = track?.at[countAt(track, head)];
  return at === undefined ? log.order.length : at + 1;
}

export function previousBoundary(log, head, lane) {
  const track = trackOf(log, lane);
  const count = countAt(track, head - 1);
  return count ? track.at[count - 1] + 1 : 0;
}

export const seek = (log, head) => ({ head: Math.max(0, Math.min(head, log.order.length)), playing: false });

export function walk(play, log, lane, steps) {
  let head = position(play, log);
  for (let left = Math.abs(steps); left; left -= 1) {
    head = steps > 0 ? nextBoundary(log, head, lane) : previousBoundary(log, head, lane);
  }
  return seek(log, head);
}

// Play or pause. A finished run that stands at its end plays again from the start.
export function toggle(play, log) {
  const head = position(play, log);
  if (play.playing || (play.head === null && isLive(log))) return { head, playing: false };
  return { head: head === log.order.length && !isLive(log) ? 0 : head, playing: true };
}

// One tick of playback: one step of any lane further on. At the end of a live run it follows; of a finished one, it rests.
export function tick(play, log) {
  const head = position(play, log) + 1;
  if (head < log.order.length) return { head, playing: true };
  return atEnd;
}

// Seconds until the next tick: the focused lane makes `speed` steps a second, the others' steps fall evenly in between.
export function tickSeconds(play, log, lane, speed) {
  const head = position(play, log);
  const track = trackOf(log, lane);
  const count = countAt(track, head);
  const from = count ? track.at[count - 1] + 1 : 0;
  const until = track?.at[count];
  return 1 / speed / (until === undefined ? 1 : until + 1 - from);
}
