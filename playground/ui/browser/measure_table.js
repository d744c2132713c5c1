// A benchmark's rows as a table, and what its columns mean.

import { h } from './dom.js';
import { number, percent, word } from './words.js';

export const OVERALL = 'overall';
const PARTS = ['draft', 'forward', 'other'];

// One row per lane; `focus` is marked, and `pick` is called with the lane that the visitor chooses.
export function table(rows, baselines, focus, pick) {
  const known = baselines.filter((base) => rows.some(({ lane }) => lane === base));
  const base = rows.find(({ lane }) => lane === known[0]);
  const titles = [
    word('measure.lane'),
    word('tokensPerSecond'),
    ...known.map((lane) => word('measure.over', { lane })),
    word('tokensPerPass'),
    word('measure.acceptanceLength'),
    word('measure.acceptanceRate'),
    word('measure.shares'),
    word('measure.identity'),
    word('measure.verdict'),
  ];
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': word('measure.results') },
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          titles.map((title) => h('th', { scope: 'col' }, title)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) => line(row, known, base, focus, pick)),
      ),
    ),
  );
}

function line(row, known, base, focus, pick) {
  const optional = (value, digits) => (value === null ? '' : number(value, digits));
  const name = Object.keys(row.shares).length && row !== base ? focusButton(row.lane, focus, pick) : row.lane;
  return h(
    'tr',
    { class: row.lane === focus ? 'focus' : null },
    h('th', { scope: 'row' }, name),
    h('td', {}, number(row.tokens_per_second, 1)),
    known.map((lane) => h('td', {}, interval(row.speedups[lane]))),
    h('td', {}, number(row.tokens_per_pass, 2)),
    h('td', {}, optional(row.acceptance_length, 2)),
    h('td', {}, row.acceptance_rate === null ? '' : percent(row.acceptance_rate)),
    h(
      'td',
      {},
      PARTS.filter((part) => part in row.shares)
        .map((part) => number(100 * row.shares[part], 0))
        .join(' / '),
    ),
    h(
      'td',
      {},
      Object.entries(row.identity)
        .map(([what, n]) => word(`measure.same.${what}`, { n }))
        .join(', '),
    ),
    h('td', { class: 'verdict' }, row === base ? word('verdict.baseline') : verdict(row, base)),
  );
}

const focusButton = (lane, focus, pick) =>
  h(
    'button',
    { type: 'button', class: 'lane', 'aria-pressed': String(lane === focus), onclick: () => pick(lane) },
    lane,
  );

const interval = (found) =>
  found ? `${number(found.median, 2)} (${number(found.low, 2)} – ${number(found.high, 2)})` : word('times', { x: 1 });

// Faster, slower or as fast as the baseline, and why: from the lane's own measurements.
export function verdict(row, base) {
  const found = row.speedups[base?.lane];
  if (!found) return '';
  const perPass = row.tokens_per_pass / base.tokens_per_pass;
  const what = found.low > 1 ? 'faster' : found.high < 1 ? 'slower' : 'asFast';
  const why = word('measure.why', { tokens: number(perPass, 2), cost: number(perPass / found.median, 2) });
  const [most] = PARTS.filter((part) => part in row.shares).sort((a, b) => row.shares[b] - row.shares[a]);
  const part = most ? ` ${word(`measure.part.${most}`, { share: percent(row.shares[most]) })}` : '';
  return `${word(`measure.is.${what}`)} ${why}${part}`;
}

const TERMS = ['tokensPerSecond', 'over', 'tokensPerPass', 'acceptanceLength', 'acceptanceRate', 'shares', 'identity'];

// The terms of the table's head with their meanings, for a list of definitions.
export const definitions = () =>
  TERMS.flatMap((term) => [
    h('dt', {}, word(term.startsWith('tokens') ? term : `measure.${term}`, { lane: '…' })),
    h('dd', {}, word(`measure.means.${term}`)),
  ]);
