// How fast a lane is against the autoregressive lane of its run, in which place it finished, and why.

import { NO_TOTALS, ratios, throughput } from './figures.js';
import { countAt, trackOf } from './log.js';
import { baselineOf, written } from './verdict.js';

// Tokens per second of a lane, each by its own clock, over those of its baseline; null before both have a token.
export function speedup(log, head, lane) {
  const baseline = baselineOf(log, lane);
  if (baseline < 0) return null;
  const [ours, theirs] = [lane, baseline].map((at) => totalsAt(log, head, at));
  if (!ours || !theirs) return null;
  const [our, their] = [ours, theirs].map((totals) => ratios(totals).tokensPerSecond);
  return our && their ? our / their : null;
}

// The place in which each lane finished by its own clock: 1 for the first, null for those that have not, or run alone.
export function places(log, head) {
  const times = log.lanes.map((_, lane) => {
    const { ended, track } = written(trackOf(log, lane), head);
    return ended && log.lanes.length > 1 ? track.totals.at(-1).seconds : null;
  });
  return times.map((time) =>
    time === null ? null : 1 + times.filter((other) => other !== null && other < time).length,
  );
}

const totalsAt = (log, head, lane) => trackOf(log, lane)?.totals[countAt(trackOf(log, lane), head) - 1];

// A lane of several sequences: how many, and their tokens per second together. Null for a single one.
function batchOf(log, head, lane) {
  const { tracks } = log.lanes[lane];
  if (tracks.length < 2) return null;
  const totals = tracks.map((track) => track.totals[countAt(track, head) - 1] ?? NO_TOTALS);
  return { sequences: tracks.length, together: throughput(totals) };
}

const GUESSLESS = ['autoregressive', 'naive-batching'];
const FEW = 0.25; // accepted tokens a step: with fewer, no draft is cheap enough

// Why a lane is as fast as it is, from what it measured: the key of a sentence and its numbers. The reason is what
// exceeds the baseline most in the time of a step, the prompt left out. `gain`, `base` and `cost` count all passes, as
// the figures above the sentence do: gain / base / cost is the speed-up.
export function why(log, head, lane) {
  const baseline = baselineOf(log, lane);
  const [ours, theirs] = [lane, baseline].map((at) => totalsAt(log, head, at));
  if (!ours || !theirs) return null;
  const speed = speedup(log, head, lane);
  const together = batchOf(log, head, lane);
  if (GUESSLESS.includes(log.lanes[lane].method) && (speed >= 1 || !together)) {
    const overPrompt = ours.forwards - ours.steps;
    return { key: overPrompt > 0 ? 'readFirst' : 'plain', overPrompt, tokens: ours.emitted, passes: ours.forwards };
  }
  const [our, their] = [perStep(ours), perStep(theirs)];
  const facts = {
    ...together,
    gain: ratios(ours).tokensPerPass,
    base: ratios(theirs).tokensPerPass,
    cost: ours.seconds / ours.forwards / (theirs.seconds / theirs.forwards),
    accepted: ours.accepted,
    proposed: ours.proposed,
    rows: our.rows,
    forward: our.forward,
    theirForward: their.forward,
    shares: { draft: our.draft / our.seconds, overhead: our.overhead / our.seconds },
  };
  return { key: reason(speed, our, their, ours), ...facts };
}

const PARTS = ['draft', 'forward', 'overhead', 'batch'];

function reason(speed, our, their, { accepted, proposed, steps }) {
  if (speed >= 1) return 'wins';
  const excess = PARTS.map((part) => [part, our[part] - their[part]]);
  const [most] = excess.sort(([, one], [, other]) => other - one)[0];
  if (most === 'batch') return most;
  if (!proposed) return 'nothing';
  if (our.tokens / our.seconds >= their.tokens / their.seconds) return 'prompt';
  return accepted / steps < FEW ? 'few' : most;
}

const perStep = ({ steps, emitted, rows, draft, forward, acceptance, bookkeeping, others }) => ({
  tokens: emitted / steps,
  rows: rows / steps,
  draft: draft / steps,
  forward: forward / steps,
  overhead: (acceptance + bookkeeping) / steps,
  batch: others / steps,
  seconds: (draft + forward + acceptance + bookkeeping + others) / steps,
});
