// Whether a lane wrote what its method promises, compared with the autoregressive lane of its run.

import { countAt, trackOf } from './log.js';

const sameIds = (one, other) => one?.length === other?.length && firstDifference(one, other, one?.length) === null;
const sameFields = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// The lane that `lane` is measured against: the first autoregressive one of the same target, prompt and sampling.
export function baselineOf(log, lane) {
  const one = log.lanes[lane];
  return log.lanes.findIndex(
    (other) =>
      other.method === 'autoregressive' &&
      other.models.target === one.models.target &&
      sameIds(other.prompt_ids, one.prompt_ids) &&
      sameFields(other.sampling, one.sampling),
  );
}

// `kind`: baseline; same (ids, as promised); parted (other ids where they should be the same); law (same distribution,
// ids may differ); lossy; unpromised; waiting (nothing to compare yet). `compared` tokens were looked at, `at` is the
// first position that differs (null: none), `odds` what the baseline's target said there. Null without a baseline.
export function verdict(log, head, lane) {
  const baseline = baselineOf(log, lane);
  if (baseline < 0) return null;
  if (baseline === lane) return { kind: 'baseline' };
  const [ours, theirs] = [lane, baseline].map((at) => written(trackOf(log, at), head));
  const compared = Math.min(ours.length, theirs.length);
  let at = firstDifference(ours.track?.output, theirs.track?.output, compared);
  if (at === null && ours.ended && theirs.ended && ours.length !== theirs.length) at = compared;
  const kind = compared ? kindOf(log.lanes[lane].lossless, at) : 'waiting';
  const odds = kind === 'parted' ? oddsAt(log.lanes[baseline], ours, theirs, at) : null;
  return { kind, compared, at, whole: ours.ended && theirs.ended, odds };
}

function kindOf(promise, at) {
  if (promise === 'ids') return at === null ? 'same' : 'parted';
  return { distribution: 'law', lossy: 'lossy' }[promise] ?? 'unpromised';
}

// What a track has written by position `head`: how many tokens, and whether it has ended.
export function written(track, head) {
  const count = countAt(track, head);
  return {
    track,
    length: track?.totals[count - 1]?.emitted ?? 0,
    ended: count > 0 && track.steps[count - 1].finish !== null,
  };
}

function firstDifference(ours, theirs, length) {
  for (let at = 0; at < length; at += 1) if (ours[at] !== theirs[at]) return at;
  return null;
}

// How far rounding may move the lead of one logit over another, with logits up to 30: see analysis/divergence.py.
const ROUNDING = { float32: 1e-4, float16: 0.12, bfloat16: 0.94 };

// The two tokens at a difference and what the target gave them, where the trace has it. `tie`: greedy, and rounding
// explains the difference. Under greedy sampling p is the softmax of what was compared, so ln(p/p) is the lead.
function oddsAt({ sampling, dtype }, ours, theirs, at) {
  const said = visitedAt(theirs.track, at);
  const tokens = [ours, theirs].map(({ track, length }) => (at < length ? track.output[at] : null));
  const [our, their] = tokens.map((token) => ({ token, p: said?.p.find(([id]) => id === token)?.[1] ?? null }));
  const lead = our.p && their.p ? Math.abs(Math.log(their.p / our.p)) : null;
  const tie = sampling.temperature > 0 || lead === null ? null : lead <= (ROUNDING[dtype] ?? 0);
  return { our, their, tie };
}

// What the target said where it decided over output position `at` of a track.
function visitedAt(track, at) {
  const step = track.totals.findIndex((totals) => totals.emitted > at);
  return track.steps[step]?.detail[at - (track.totals[step - 1]?.emitted ?? 0)];
}
