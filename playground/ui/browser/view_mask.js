// Which row of the pass attends to which: the mask that lets one pass judge a whole tree, and carry a window along.

import { cells } from './cells.js';
import { brief, named, nothing, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { lastPiece } from './tree.js';
import { word } from './words.js';

const NAMED = 18; // rows up to which they are named beside the matrix
const DRAWN = 160; // rows up to which a cell can still be seen

const upTo = (count, read) => Array.from({ length: count }, (_, at) => read(at));

// The rows of a pass: the last committed token, the candidates, a lookahead window. Each has its text and what it sees.
function rowsOf({ nodes, view, side_rows: side }, track, last) {
  const rows = [{ piece: last, kind: 'path', sees: [0] }];
  for (const { token, parent, status } of nodes) {
    const sees = [...rows[parent + 1].sees, rows.length];
    rows.push({ piece: pieceOf(track, token), kind: status === 'accepted' ? 'path' : 'branch', sees });
  }
  const levels = side ? view.before : [];
  const before = nodes.length; // the window follows the candidates, without its first cell: the last committed token
  const place = (level, column) => (level || column ? before + level * levels[0].length + column : 0);
  levels.forEach((tokens, level) => {
    tokens.forEach((token, column) => {
      const oldest = upTo(column + 1, (at) => place(0, at));
      const above = upTo(level, (at) => place(at + 1, column));
      if (level || column) rows.push({ piece: pieceOf(track, token), kind: 'window', sees: [...oldest, ...above] });
    });
  });
  return rows;
}

// Rows and columns are those of the pass; the first column is the whole text in the cache. A candidate sees that, its
// ancestors and itself, and no other branch; a cell of the window the oldest level up to its column, and its column.
export function maskMatrix(log, lane, head, colours, width = 400) {
  const { track, count, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  const all = rowsOf(step, track, lastPiece(track, count));
  if (all.length > DRAWN) return nothing(colours, word('view.tooMany', { n: all.length, most: DRAWN }));
  const name = ({ piece }) => `<b>${named(piece)}</b> ${word('view.sees')} `;
  const grid = all.map((row, at) => {
    const text = { kind: 'text', id: 1, hover: name(row) + word('view.cached', { n: step.cache_before }) };
    const seen = new Set(row.sees);
    const cell = (column, other) => ({
      kind: row.kind === 'path' && column.kind !== 'path' ? column.kind : row.kind,
      id: 1,
      hover: name(row) + (at === other ? word('view.itself') : `<b>${named(column.piece)}</b>`),
    });
    return [text, ...all.map((column, other) => (seen.has(other) ? cell(column, other) : null))];
  });
  const few = all.length <= NAMED;
  const { trace, layout } = cells({
    rows: grid,
    fills: {
      text: tint(colours.plain, 0.35),
      branch: tint(colours.muted, 0.6),
      path: colours.accepted,
      window: tint(colours.bonus, 0.6),
    },
    names: few ? all.map(({ piece }) => brief(piece, 12)) : [],
    x: word('view.seen'),
    colours,
    width,
    column: 0,
    gap: all.length > 40 ? 0.5 : 1.5,
    height: Math.max(220, Math.min(460, 56 + 22 * all.length)),
  });
  const pairs = all.reduce((sum, { sees }) => sum + sees.length, 0);
  const window = all.filter(({ kind }) => kind === 'window').length;
  return {
    data: [trace],
    layout,
    caption:
      word('view.mask', { n: all.length, pairs, all: all.length ** 2 }) +
      (window ? ` ${word('view.side', { n: window })}` : ''),
  };
}
