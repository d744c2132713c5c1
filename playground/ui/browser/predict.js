// Predict, then reveal: a step is first shown as it was proposed, and with its verdict when the visitor asks for it.
// Pure functions: what is hidden is hidden in the log, so that every view hides it.

import { NO_TOTALS } from './figures.js';
import { countAt, trackOf } from './log.js';

// Whether the playhead stands behind a step of the focused lane in which guesses were judged.
export function canHide(log, lane, head) {
  const last = log.order[head - 1];
  return last?.lane === lane && last.step.row === 0 && last.step.nodes.length > 0;
}

// The log without the verdict of that step: every guess is only proposed, nothing is written, no time has passed.
export function veil(log, lane, head) {
  const track = trackOf(log, lane);
  const at = countAt(track, head) - 1;
  const step = track.steps[at];
  const nodes = step.nodes.map((node) => ({
    ...node,
    status: 'proposed',
    p: null,
    u: null,
    threshold: null,
    reason: '',
  }));
  const hidden = { ...step, nodes, emitted: [], detail: [], cache_after: step.cache_before + step.rows, finish: null };
  const totals = track.totals[at - 1] ?? NO_TOTALS;
  const veiled = { ...track, steps: track.steps.with(at, hidden), totals: track.totals.with(at, totals) };
  const { tracks } = log.lanes[lane];
  return { ...log, lanes: log.lanes.with(lane, { ...log.lanes[lane], tracks: tracks.with(0, veiled) }) };
}

// What the visitor is asked about: the drafter's first choice for the next token.
export const asked = (log, lane, head) => {
  const track = trackOf(log, lane);
  return track.steps[countAt(track, head) - 1].nodes[0];
};

export const NO_VOTES = { right: 0, cast: 0, last: null };

// The score after a vote on `node`: its fate is known, the visitor only did not see it.
export function vote(votes, node, accepted) {
  const right = accepted === (node.status === 'accepted');
  return { right: votes.right + (right ? 1 : 0), cast: votes.cast + 1, last: right };
}
