// The places ahead of the text from left to right, each with what was guessed there and what became of it.

import { h, label } from './dom.js';
import { pieceOf } from './log.js';
import { short } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { testBar } from './test_bar.js';
import { unjudged } from './trials.js';
import { word } from './words.js';

const MOST_GUESSES = 3; // cards of one place

// `pick(at)` is called when the visitor chooses the place of trial `at`.
export function placesOf(step, track, trials, chosen, pick) {
  const columns = trials.map((trial, at) => {
    const status = trial.own ? trial.own.status : 'accepted';
    return h(
      'button',
      {
        type: 'button',
        class: `place-column ${status}`,
        'aria-pressed': String(trial === chosen),
        onclick: () => pick(at),
      },
      h('span', { class: 'ahead' }, word('place.ahead', { n: trial.depth })),
      guessCards(step, track, trial),
      trial.own && card(track, trial.own, [], word(`fate.${trial.own.status}`)),
    );
  });
  for (const [depth, nodes] of unjudged(step)) {
    if (depth <= trials.length) continue; // their place had its trial
    const [first] = nodes;
    const more = nodes.length > 1 ? h('span', { class: 'more' }, word('one.more', { n: nodes.length - 1 })) : null;
    columns.push(
      h(
        'div',
        { class: `place-column ${step.nodes[first].status}` },
        h('span', { class: 'ahead' }, word('place.ahead', { n: depth })),
        card(track, step.nodes[first], [], word(`fate.${step.nodes[first].status}`)),
        more,
      ),
    );
  }
  return columns;
}

function guessCards(step, track, { guesses, taken }) {
  const first = [...guesses].sort((one, other) => (other === taken) - (one === taken)).slice(0, MOST_GUESSES);
  const cards = first.map((at) => {
    const node = step.nodes[at];
    return card(track, node, [odds(node), testBar(node)], word(`fate.${node.status}`));
  });
  const left = guesses.length - first.length;
  return left ? [...cards, h('span', { class: 'more' }, word('one.moreGuesses', { n: left }))] : cards;
}

const card = (track, { token, status }, facts, fate) =>
  h(
    'span',
    { class: `card ${status}` },
    h('span', { class: `token ${status}` }, label(pieceOf(track, token))),
    facts,
    h('span', { class: 'fate' }, `${GLYPHS[status]} ${fate}`.trim()),
  );

function odds({ p, q }) {
  const known = [
    ['p', p],
    ['q', q],
  ].filter(([, value]) => value !== null);
  return known.length
    ? h(
        'span',
        { class: 'odds' },
        known.map(([name, value]) => h('span', {}, `${word(`law.${name}`)} ${short(value)}`)),
      )
    : null;
}
