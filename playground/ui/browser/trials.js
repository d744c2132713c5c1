// A step as the acceptance rule went through it: one trial for every place at which the target was asked. Pure.

// `at` is the node after which the target was asked (-1: the last committed token), `depth` how many places ahead the
// token in question lies. `guesses` are the nodes proposed there, `taken` the accepted one (-1: none). `own` is the
// target's own token, which ends the step; `said` the recorded distributions, null where the run has none.
export function trialsOf(step) {
  const trials = [];
  let at = -1;
  do {
    const asked = at;
    const guesses = step.nodes.flatMap(({ parent }, node) => (parent === asked ? [node] : []));
    const taken = guesses.find((node) => step.nodes[node].status === 'accepted') ?? -1;
    const said = step.detail.find(({ node }) => node === asked) ?? null;
    trials.push({ at, depth: trials.length + 1, guesses, taken, own: null, said });
    at = taken;
  } while (at >= 0);
  const last = trials.at(-1);
  last.own = step.emitted.find((token) => token.status !== 'accepted') ?? null;
  // A stop may cut a block at an accepted token: nothing was asked after it.
  if (last.own === null && trials.length > 1) trials.pop();
  return trials;
}

// How a guess was judged: `ratio` (u against p/q), `typical` (p against a threshold), `draw` and `best` (the target's
// own draw or most probable token, which the guess had to be), `none` (not judged).
export function testOf({ status, threshold, u }) {
  if (status === 'never-reached' || status === 'proposed') return 'none';
  if (threshold !== null) return u === null ? 'typical' : 'ratio';
  return u === null ? 'best' : 'draw';
}

// What the number is against which a guess was judged: its key in the notes at the pointer.
export const limitOf = (node) => (testOf(node) === 'typical' ? 'tip.above' : 'tip.below');

// Whether the step is shown as it was proposed, its verdict still hidden.
export const isVeiled = (step) => step.nodes.some(({ status }) => status === 'proposed');

// Nodes that were not judged, by depth: what stood behind a wrong guess, or all of a veiled step.
export function unjudged(step) {
  const depths = [];
  const found = new Map();
  step.nodes.forEach((node, at) => {
    depths.push(node.parent < 0 ? 1 : depths[node.parent] + 1);
    if (testOf(node) === 'none') found.set(depths[at], [...(found.get(depths[at]) ?? []), at]);
  });
  return found;
}

const LISTED = 8; // most probable tokens that the trace keeps of each distribution: a shorter list is all there is

// Tokens to show of a trial's distributions, most probable first, the `marked` ones (token: status) always among them.
// A value that the trace does not hold is null: it lies below the law's `least`. `rest` is what all tokens that are not
// shown come to.
export function barsOf(said, nodes, marked, most = 9) {
  const laws = { p: said.p, q: said.q, residual: said.residual };
  const value = (name, token) => {
    const listed = laws[name].find(([id]) => id === token)?.[1];
    const judged = name === 'residual' ? null : nodes.find((node) => node.token === token)?.[name];
    return listed ?? judged ?? (laws[name].length < LISTED ? 0 : null);
  };
  const residual = (token, p, q) => (p !== null && q !== null && p <= q ? 0 : value('residual', token));
  const tokens = [...new Set([...marked.keys(), ...Object.values(laws).flatMap((law) => law.map(([id]) => id))])];
  const rows = tokens.map((token) => {
    const [p, q] = [value('p', token), laws.q.length ? value('q', token) : null];
    return {
      token,
      mark: marked.get(token) ?? null,
      p,
      q,
      residual: laws.residual.length ? residual(token, p, q) : null,
    };
  });
  const height = ({ p, q, residual }) => Math.max(p ?? 0, q ?? 0, residual ?? 0);
  rows.sort((one, other) => Boolean(other.mark) - Boolean(one.mark) || height(other) - height(one));
  const shown = rows.slice(0, most).sort((one, other) => (other.p ?? 0) - (one.p ?? 0) || height(other) - height(one));
  const rest = (name) =>
    laws[name].length ? Math.max(0, 1 - shown.reduce((sum, row) => sum + (row[name] ?? 0), 0)) : null;
  const least = Object.fromEntries(
    Object.entries(laws).map(([name, law]) => [name, law.at(Math.min(law.length, LISTED) - 1)?.[1] ?? 0]),
  );
  return {
    rows: shown,
    least,
    rest: { p: rest('p'), q: rest('q'), residual: rest('residual') },
    highest: Math.max(...shown.map(height)),
  };
}

// The rows of a pass and what became of them: `before` were cached; `fed` are committed tokens that were read; `nodes`
// says of each whether its row stayed; `side` rows never stay.
export function cacheRows(step) {
  const fed = step.rows - step.nodes.length - step.side_rows;
  let left = step.cache_after - step.cache_before - fed;
  const nodes = step.nodes.map(({ status }) => status === 'accepted' && left-- > 0);
  return { before: step.cache_before, fed, nodes, side: step.side_rows, after: step.cache_after };
}
