// The n-gram pool of lookahead decoding after a step, and what the step did with it.

import { cells } from './cells.js';
import { brief, named, nothing, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { hasWindow } from './view_window.js';
import { word } from './words.js';

const SHOWN = 18; // rows in all, and at most so many of each kind
const MOST = { tried: 10, added: 8, refreshed: 4, evicted: 3 };
const GLYPH = { tried: '?', added: '+', refreshed: '↻', evicted: '×', kept: '' };

// The pool after the steps of a track, oldest entry first, rebuilt from their changes; and what the last one changed.
export function poolAfter(steps) {
  const entries = new Map();
  let changes = new Map();
  for (const { view } of steps) {
    changes = new Map();
    for (const [kind, ngram] of view.pool ?? []) {
      const key = String(ngram);
      entries.delete(key);
      if (kind !== 'evicted') entries.set(key, ngram);
      // An entry that was new a moment ago stays new, however often it comes again in the same step.
      if (kind !== 'refreshed' || changes.get(key)?.kind !== 'added') changes.set(key, { kind, ngram });
    }
  }
  return { entries, changes };
}

// A row per n-gram: those tried in this step, then the new, refreshed and evicted ones, then the youngest others.
export function ngramPool(log, lane, head, colours, width = 480) {
  const { track, count, step } = standing(log, lane, head);
  if (!step || !hasWindow(step)) return nothing(colours);
  const { entries, changes } = poolAfter(track.steps.slice(0, count));
  const first = step.view.before[0][0];
  const tried = step.view.candidates.map(({ tokens, matched }) => ({
    kind: 'tried',
    ngram: [first, ...tokens],
    matched,
  }));
  tried.sort((one, other) => other.matched - one.matched);
  const starts = new Set(tried.map(({ ngram }) => String(ngram)));
  const isTried = ({ ngram }) => starts.has(String(ngram));
  const changed = (kind) => [...changes.values()].filter((change) => change.kind === kind);
  const of = { added: changed('added'), refreshed: changed('refreshed'), evicted: changed('evicted') };
  const rows = [
    ...tried.slice(0, MOST.tried),
    ...Object.entries(of).flatMap(([kind, list]) => list.filter((one) => !isTried(one)).slice(-MOST[kind])),
  ];
  const known = new Set(rows.map(({ ngram }) => String(ngram)));
  const others = [...entries.values()]
    .reverse()
    .filter((ngram) => !known.has(String(ngram)) && !changes.has(String(ngram)));
  rows.push(...others.slice(0, Math.max(0, SHOWN - rows.length)).map((ngram) => ({ kind: 'kept', ngram })));
  const { trace, layout } = cells({
    rows: rows.map((row) => row.ngram.map((token, at) => cell(track, row, token, at, changes))),
    fills: {
      key: tint(colours.corrected, 0.4),
      matched: tint(colours.accepted, 0.45),
      missed: tint(colours.rejected, 0.35),
      unreached: tint(colours.plain, 0.1),
      added: tint(colours.bonus, 0.3),
      refreshed: tint(colours.plain, 0.4),
      evicted: tint(colours.rejected, 0.1),
      kept: tint(colours.plain, 0.12),
    },
    names: rows.map(({ kind, matched }) => `${GLYPH[kind]} ${word(`pool.${kind}`, { n: matched })}`.trim()),
    colours,
    width,
    row: 22,
  });
  const inside = rows.filter(
    ({ kind, ngram }) => kind !== 'evicted' && (kind !== 'tried' || entries.has(String(ngram))),
  ).length;
  return {
    data: [{ ...trace, name: rows.map(({ kind }) => kind).join(' ') }],
    layout,
    caption: word('view.pool', {
      total: entries.size,
      tried: tried.length,
      best: Math.max(0, ...tried.map(({ matched }) => matched)),
      added: of.added.length,
      refreshed: of.refreshed.length,
      evicted: of.evicted.length,
      hidden: Math.max(0, entries.size - inside),
    }),
  };
}

function cell(track, { kind, matched, ngram }, token, at, changes) {
  const fate = at === 0 ? 'key' : at <= matched ? 'matched' : at === matched + 1 ? 'missed' : 'unreached';
  const also = kind === 'tried' ? changes.get(String(ngram))?.kind : undefined;
  const glyphs = { matched: '•', missed: '×' };
  return {
    kind: kind === 'tried' ? fate : kind,
    id: token,
    text: brief(pieceOf(track, token)),
    glyph: kind === 'tried' ? glyphs[fate] : kind === 'evicted' ? '×' : '',
    hover: [
      `<b>${ngram.map((one) => named(pieceOf(track, one), 12)).join(' ')}</b>`,
      word(`pool.${kind}.tip`, { n: matched }),
      also && word(`pool.${also}.tip`),
    ]
      .filter(Boolean)
      .join('<br>'),
  };
}
