// What happened in a step, told from the step alone. A sentence is a list of parts: strings and { token, status }.

import { acceptedIn } from './figures.js';
import { phrase } from './phrases.js';
import { number, percent, precise, say, word } from './words.js';

const ENDS = new Set(['eos', 'stop', 'length', 'context']);

export function tell(step) {
  const sentences = [say(...plot(step))];
  const odds = lost(step);
  if (odds?.u != null && odds.q) {
    const [u, p, q, threshold] = [odds.u, odds.p, odds.q, odds.threshold].map((value) => chance(value));
    sentences.push(say('story.odds', { wrong: odds, u, p, q, threshold }));
  }
  if (step.finish) sentences.push(ENDS.has(step.finish) ? say(`end.${step.finish}`) : [step.finish]);
  return sentences;
}

function plot(step) {
  const n = step.nodes.length;
  const accepted = acceptedIn(step);
  const gain = step.emitted.length;
  const own = step.emitted.find((token) => token.status !== 'accepted');
  const wrong = lost(step);
  const depth = depthOf(step.nodes);
  if (step.nodes[0]?.status === 'proposed') return ['story.proposed', { n }];
  if (step.view.drafted != null)
    return ['story.told', { drafted: step.view.drafted, accepted: step.view.accepted, gain }];
  if (own?.status === 'unknown') return ['story.unknown', { n: gain }];
  if (!own) return ['story.cut', { n, accepted }];
  if (!n)
    return step.reason ? ['story.none', { reason: phrase(step.reason), token: own }] : ['story.plain', { token: own }];
  if (depth < n) {
    const key = own.status === 'bonus' ? 'story.treeAll' : accepted ? 'story.tree' : 'story.treeNone';
    return [key, { n, depth, accepted: word('count', { n: accepted }), token: own, gain }];
  }
  if (own.status === 'bonus') return ['story.all', { n, token: own, gain }];
  return [accepted || n === 1 ? 'story.some' : 'story.someNone', { n, accepted, token: own, wrong }];
}

// The proposal that lost to the target's own token: the first rejected child of the last accepted node.
export function lost(step) {
  let end = -1;
  step.nodes.forEach((node, at) => {
    if (node.status === 'accepted') end = at;
  });
  return step.nodes.find((node) => node.status === 'rejected' && node.parent === end);
}

export function depthOf(nodes) {
  const depths = [];
  for (const node of nodes) depths.push(node.parent < 0 ? 1 : depths[node.parent] + 1);
  return Math.max(0, ...depths);
}

// A probability for those who read no decimals: a percentage of so many significant digits.
export function chance(value, digits = 2) {
  if (value === 0 || value === 1) return percent(value);
  if (value < 0.001) return word('chance.under', { x: percent(0.001, 1) });
  if (value >= 0.9995) return word('chance.over', { x: percent(0.999, 1) });
  return word('percent', { x: precise(100 * value, value >= 0.995 ? 3 : digits) });
}

export function short(value) {
  if (value === 0 || value === 1) return String(value);
  if (value >= 0.001) return precise(value, value > 0.99 ? 4 : 3);
  const [digits, exponent] = value.toExponential(1).split('e-');
  return `${number(Number(digits), 1)}·10⁻${exponent.replace(/\d/g, (digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[digit])}`;
}
