// Which row of the pass attends to which: the mask that lets one pass judge a whole tree.

import { cells } from './cells.js';
import { brief, named, nothing, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { lastPiece } from './tree.js';
import { word } from './words.js';

const NAMED = 18; // rows up to which they are named beside the matrix

// Rows and columns are the last committed token and the candidates, in the order of the pass; the first column is the
// whole text in the cache. A candidate sees that, its ancestors and itself, and no other branch.
export function maskMatrix(log, lane, head, colours, width = 400) {
  const { track, count, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  const { nodes } = step;
  const all = [-1, ...nodes.keys()];
  const pieces = [lastPiece(track, count), ...nodes.map(({ token }) => pieceOf(track, token))];
  const name = (row) => `<b>${named(pieces[row + 1])}</b>`;
  const onPath = (row) => row < 0 || nodes[row].status === 'accepted';
  const seenBy = (row) => (row < 0 ? [-1] : [row, ...seenBy(nodes[row].parent)]);
  const cell = (row, column) => ({
    kind: onPath(row) && onPath(column) ? 'path' : 'branch',
    id: 1,
    hover: `${name(row)} ${word('view.sees')} ${row === column ? word('view.itself') : name(column)}`,
  });
  const cached = (row) => ({
    kind: 'text',
    id: 1,
    hover: `${name(row)} ${word('view.sees')} ${word('view.cached', { n: step.cache_before })}`,
  });
  const seen = all.map((row) => new Set(seenBy(row)));
  const few = all.length <= NAMED;
  const { trace, layout } = cells({
    rows: all.map((row, at) => [
      cached(row),
      ...all.map((column) => (seen[at].has(column) ? cell(row, column) : null)),
    ]),
    fills: { text: tint(colours.plain, 0.35), branch: tint(colours.muted, 0.6), path: colours.accepted },
    names: few ? pieces.map((piece) => brief(piece, 12)) : [],
    x: word('view.seen'),
    colours,
    width,
    column: 0,
    gap: all.length > 40 ? 0.5 : 1.5,
    height: Math.max(220, Math.min(460, 56 + 22 * all.length)),
  });
  const pairs = seen.reduce((sum, { size }) => sum + size, 0);
  return {
    data: [trace],
    layout,
    caption:
      word('view.mask', { n: all.length, pairs, all: all.length ** 2 }) +
      (step.side_rows ? ` ${word('view.side', { n: step.side_rows })}` : ''),
  };
}
