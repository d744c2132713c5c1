// Messages and steps to test with, in the wire's form.

import { STATUSES } from '../../../playground/ui/browser/statuses.js';

const code = (name) => STATUSES.indexOf(name);
const FATES = { a: code('accepted'), r: code('rejected'), n: code('never-reached') };

// A step that proposed a chain, one letter per node, and ended with the target's own token.
export function chain(fates, own = 'corrected', rest = {}) {
  const accepted = [...fates].filter((fate) => fate === 'a').length;
  const n = fates.length;
  return {
    nodes: n && {
      n,
      parent: [...fates].map((_, at) => at - 1),
      token: [...fates].map((_, at) => 10 + at),
      status: [...fates].map((fate) => FATES[fate]),
    },
    emitted: {
      n: accepted + (own ? 1 : 0),
      token: [...Array(accepted).keys()].map((at) => 10 + at).concat(own ? [99] : []),
      status: Array(accepted)
        .fill(code('accepted'))
        .concat(own ? [code(own)] : []),
      text: ' x',
    },
    seconds: { forward: 0.01 },
    ...rest,
  };
}

export const plain = (rest) => ({ ...chain('', 'plain', rest), nodes: { n: 0 } });

// A step whose proposals form the tree given by its parents.
export function tree(parents, fates, own = 'corrected') {
  const step = chain(fates, own);
  step.nodes.parent = parents;
  return step;
}

const header = (lanes) =>
  JSON.stringify({
    title: '',
    machine: '',
    recorded: '',
    lanes: Array.from({ length: lanes }, (_, at) => ({
      method: `m${at}`,
      title: `Lane ${at}`,
      settings: {},
      models: {},
      notices: [],
      prompt: 'Once',
      prompt_pieces: ['On', 'ce'],
    })),
  });

export const opening = (run = 'a', lanes = 2) => ({ run, seq: 0, live: true, header: header(lanes), notice: null });
export const more = (seq, steps, rest = {}) => ({ run: 'a', seq, steps, ...rest });
