// Numbers of a sequence after any number of steps. Names and formulas are those of `Summary` in trace.py.

export const NO_TOTALS = {
  steps: 0,
  emitted: 0,
  forwards: 0,
  proposed: 0,
  accepted: 0,
  speculative: 0,
  rows: 0,
  seconds: 0,
  own: 0,
  prefill: 0,
  draft: 0,
  forward: 0,
  acceptance: 0,
  bookkeeping: 0,
  others: 0,
};
const PHASES = ['prefill', 'draft', 'forward', 'acceptance', 'bookkeeping', 'others'];

// Seconds of a step that are the sequence's own share of it: neither waiting for the device nor the rest of its batch.
export const ownSeconds = ({ prefill, draft, forward, acceptance, bookkeeping }) =>
  prefill + draft + forward + acceptance + bookkeeping;

export const acceptedIn = (step) => step.emitted.filter((token) => token.status === 'accepted').length;

export function addStep(totals, step) {
  const phases = Object.fromEntries(PHASES.map((phase) => [phase, totals[phase] + step.seconds[phase]]));
  return {
    ...phases,
    steps: totals.steps + 1,
    emitted: totals.emitted + step.emitted.length,
    forwards: totals.forwards + step.forwards,
    proposed: totals.proposed + step.nodes.length,
    accepted: totals.accepted + (step.nodes.length ? acceptedIn(step) : 0),
    speculative: totals.speculative + (step.nodes.length ? 1 : 0),
    ...(step.counts && told(totals, step)),
    rows: totals.rows + step.rows,
    seconds: totals.seconds + ownSeconds(step.seconds) + step.seconds.others,
    own: totals.own + ownSeconds(step.seconds),
  };
}

// What a server counted over its whole reply. It may send several passes at once; each gives one token not proposed.
const told = (totals, { emitted, forwards, counts }) => ({
  forwards: Math.max(totals.forwards + forwards, totals.emitted + emitted.length - counts.num_accepted_draft_tokens),
  proposed: counts.num_draft_tokens,
  accepted: counts.num_accepted_draft_tokens,
  speculative: counts.num_spec_steps,
});

// Ratios that have nothing to divide by are null.
export function ratios({ emitted, forwards, proposed, accepted, speculative, seconds }) {
  return {
    tokensPerSecond: seconds ? emitted / seconds : null,
    tokensPerPass: forwards ? emitted / forwards : null,
    acceptanceRate: proposed ? accepted / proposed : null,
    meanAcceptanceLength: speculative ? 1 + accepted / speculative : null,
  };
}

// Tokens per second of all sequences of a lane together, each given by its totals.
export function throughput(all) {
  const sum = (name) => all.reduce((total, totals) => total + totals[name], 0);
  return sum('own') ? sum('emitted') / sum('own') : null;
}
