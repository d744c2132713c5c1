// The lookahead window of a step: guesses by position, and the n-grams that run through it.

import { cells } from './cells.js';
import { brief, named, nothing, quoted, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { word } from './words.js';

export const hasWindow = (step) => step.view.candidates !== undefined;

// A level of the window is a row, the oldest on top and the one that this pass added at the bottom. Level l, column c
// guesses the token l + c places after the last committed one, and stands there: so a column of the window, which
// becomes an n-gram, runs down a diagonal.
export function lookaheadWindow(log, lane, head, colours, width = 640) {
  const { track, step } = standing(log, lane, head);
  if (!step || !hasWindow(step)) return nothing(colours);
  const { before, results, diagonals, level, paused, pool } = step.view;
  const fresh = new Set(pool.filter(([kind]) => kind === 'added').map(([, ngram]) => String(ngram)));
  const kinds = diagonals.map((ngram) => (fresh.has(String(ngram)) ? 'new' : 'known'));
  const levels = results.length ? [...before, results] : before;
  const said = (ngram) => ngram.map((token) => named(pieceOf(track, token), 12)).join(' ');
  const rows = levels.map((tokens, l) => [
    ...Array(l).fill(null),
    ...tokens.map((token, c) => ({
      kind: l + c === 0 ? 'last' : diagonals.length ? `${kinds[c]}${c % 2}` : `guess${c % 2}`,
      id: token,
      text: brief(pieceOf(track, token)),
      hover: [
        `<b>${named(pieceOf(track, token))}</b>`,
        l + c === 0 ? word('lastToken') : word('view.cell', { level: l, column: c, ahead: l + c }),
        diagonals.length ? `${word(`view.${kinds[c]}`)}: ${said(diagonals[c])}` : '',
      ]
        .filter(Boolean)
        .join('<br>'),
    })),
  ]);
  const columns = Math.max(...rows.map((line) => line.length));
  const { trace, layout } = cells({
    rows,
    fills: {
      guess0: tint(colours.plain, 0.12),
      guess1: tint(colours.plain, 0.24),
      known0: tint(colours.plain, 0.22),
      known1: tint(colours.plain, 0.4),
      new0: tint(colours.bonus, 0.2),
      new1: tint(colours.bonus, 0.42),
      last: tint(colours.corrected, 0.55),
    },
    names: levels.map((_, l) => (l === before.length ? word('view.thisPass') : word('view.level', { n: l }))),
    top: Array.from({ length: columns }, (_, at) => word('ahead', { n: at })),
    x: word('view.position'),
    colours,
    width,
    row: 32,
    column: 46,
    gap: 5,
  });
  return {
    data: [trace, ...['known', 'new'].map((kind) => threads(kind, kinds, levels.length, colours))],
    layout,
    caption: paused
      ? word('view.paused')
      : diagonals.length
        ? word('view.window', {
            n: diagonals.length,
            fresh: kinds.filter((kind) => kind === 'new').length,
            first: diagonals[0].map((token) => quoted(track, token)).join(' '),
          })
        : word('view.filling', { n: level + 1, levels: before.length + 1 }),
  };
}

// Short strokes from cell to cell along the diagonals.
function threads(kind, kinds, levels, colours) {
  const strokes = kinds.flatMap((one, c) =>
    one === kind ? Array.from({ length: levels - 1 }, (_, l) => [l + c, l]) : [],
  );
  return {
    type: 'scatter',
    mode: 'lines',
    meta: kind,
    x: strokes.flatMap(([x]) => [x + 0.4, x + 0.6, null]),
    y: strokes.flatMap(([, y]) => [y + 0.36, y + 0.64, null]),
    line: { color: kind === 'new' ? colours.bonus : colours.plain, width: kind === 'new' ? 3 : 2 },
    hoverinfo: 'skip',
    showlegend: false,
  };
}
