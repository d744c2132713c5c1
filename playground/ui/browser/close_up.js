// One place of a step close up: how its guesses were judged, and what target and draft had said there.

import { chip, h, label } from './dom.js';
import { pieceOf } from './log.js';
import { short } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { testBar } from './test_bar.js';
import { barsOf, isVeiled, testOf } from './trials.js';
import { say, word } from './words.js';

const MOST_GUESSES = 3; // judgements told in full
const MARKED = 5; // guesses that always have a bar

export const told = (track, part) =>
  part?.token === undefined ? String(part) : chip(pieceOf(track, part.token), part.status);

export function heading(step, track, trial) {
  const last = trial.at < 0 ? word('one.lastToken') : label(pieceOf(track, step.nodes[trial.at].token));
  return [word('one.trial', { n: trial.depth }), ' ', h('small', {}, word('one.after', { last }))];
}

export function judged(step, track, trial) {
  if (isVeiled(step)) return [h('p', {}, word('one.veiled'))];
  const guesses = trial.guesses.map((at) => step.nodes[at]).filter((node) => testOf(node) !== 'none');
  if (!guesses.length) return [h('p', {}, word(step.nodes.length ? 'test.bonus' : 'test.plain'))];
  const kind = testOf(guesses[0]);
  if (kind === 'best' || kind === 'draw') return matched(track, trial, guesses, kind);
  const all = guesses.slice(0, MOST_GUESSES).map((node) => judgement(track, node));
  const left = guesses.length - all.length;
  if (left > 0) all.push(h('p', {}, word('one.moreGuesses', { n: left })));
  if (trial.said?.residual.length) all.push(h('p', { class: 'redraw' }, word('test.residual')));
  return all;
}

// The target named its own token and a guess had to be that.
function matched(track, { own }, guesses, kind) {
  const right = own ?? guesses.find((node) => node.status === 'accepted');
  const sentence = right
    ? say(`test.${kind}`, { own: right, u: short(guesses[0].u ?? 0) }).map((piece) => told(track, piece))
    : word('test.cut');
  const list = guesses.map((node) =>
    h('li', {}, chip(pieceOf(track, node.token), node.status), ` ${GLYPHS[node.status]}`),
  );
  return [
    h('p', {}, sentence),
    h('p', {}, word('test.guesses', { n: guesses.length })),
    h('ul', { class: 'guess-list' }, list),
  ];
}

function judgement(track, node) {
  const values = Object.fromEntries(
    ['p', 'q', 'u', 'threshold'].map((name) => [name, node[name] === null ? '?' : short(node[name])]),
  );
  const kind = testOf(node);
  const key = kind === 'ratio' && node.threshold === 1 ? 'sure' : `${kind}.${node.status}`;
  const fate = h('b', {}, `${GLYPHS[node.status]} ${word(`status.${node.status}`)}`);
  return h(
    'div',
    { class: 'judgement' },
    h('p', { class: 'guess' }, chip(pieceOf(track, node.token), node.status), ' ', fate),
    testScale(node),
    h('p', {}, word(`test.${key}`, values)),
  );
}

// The test bar, large, with its numbers.
function testScale(node) {
  const bar = testBar(node);
  if (!bar) return null;
  const kind = testOf(node);
  return h(
    'div',
    { class: 'test-scale' },
    bar,
    h('p', { class: 'scale-words' }, h('span', {}, word(`test.${kind}.low`)), h('span', {}, word(`test.${kind}.high`))),
  );
}

export function bars(step, track, trial) {
  if (isVeiled(step)) return [];
  if (!trial.said) return [h('p', { class: 'muted' }, word('one.noDetail'))];
  const guesses = trial.guesses.map((at) => step.nodes[at]);
  const marked = new Map(guesses.slice(0, MARKED).map((node) => [node.token, node.status]));
  if (trial.own) marked.set(trial.own.token, trial.own.status);
  const { rows, rest, highest, least } = barsOf(trial.said, guesses, marked);
  const redrawn = trial.said.residual.length > 0;
  const laws = ['p', ...(trial.said.q.length ? ['q'] : []), ...(redrawn ? ['residual'] : [])];
  const cells = (values) =>
    laws.map((name) =>
      values[name] === null
        ? h('td', { class: name }, h('span', { class: 'value below' }, `< ${short(least[name])}`))
        : barCell(name, values[name], highest, redrawn && name === 'p' ? (values.q ?? least.q) : null),
    );
  return [
    h(
      'table',
      { class: `law-table laws-${laws.length}` },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', {}, word('one.token')),
          laws.map((name) => h('th', { scope: 'col', class: name }, word(`law.${name}`))),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) =>
          h(
            'tr',
            { class: row.mark ?? '' },
            h(
              'th',
              { scope: 'row' },
              h('span', { class: `token ${row.mark ?? ''}` }, label(pieceOf(track, row.token))),
            ),
            cells(row),
          ),
        ),
        h(
          'tr',
          { class: 'others' },
          h('th', { scope: 'row' }, word('one.others')),
          laws.map((name) => h('td', {}, h('span', { class: 'value' }, short(rest[name])))),
        ),
      ),
    ),
  ];
}

// A bar on the scale of `highest`. What the target gives beyond the draft (`above`) is set off: the residual.
function barCell(name, value, highest, above) {
  const width = (part) => `width:${(100 * Math.min(1, part / highest)).toFixed(2)}%`;
  const common = above === null ? value : Math.min(value, above);
  return h(
    'td',
    { class: name },
    h(
      'span',
      { class: 'bar' },
      h('i', { style: width(common) }),
      above !== null && value > common ? h('i', { class: 'excess', style: width(value - common) }) : null,
    ),
    h('span', { class: 'value' }, short(value)),
  );
}
