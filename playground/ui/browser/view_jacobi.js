// How a Jacobi block settles: one row per pass, each token in the place that it guesses.

import { cells } from './cells.js';
import { brief, escape, named, nothing, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { GLYPHS } from './statuses.js';
import { word } from './words.js';

const PASSES = 12; // rows: the latest passes before the playhead

export const hasBlock = (step) => step.view.fixed !== undefined;

// Every row but the last is a block as it was fed: its solved prefix, the token that the pass put right, the rest. The
// last row is what the latest pass made of it: the next block.
export function jacobiTrajectory(log, lane, head, colours, width = 640) {
  const { track, count } = standing(log, lane, head);
  const passes = (track?.steps ?? [])
    .slice(0, count)
    .map((step, at) => ({ ...step.view, nodes: step.nodes, n: at + 1 }))
    .filter(({ fixed }) => fixed !== undefined)
    .slice(-PASSES);
  const last = passes.at(-1);
  if (!last) return nothing(colours);
  const origin = passes[0].start;
  const solved = new Map();
  for (const { start, after, fixed } of passes)
    for (let at = 0; at <= fixed; at += 1) solved.set(start + at, after[at]);
  const settled = (start) =>
    Array.from({ length: start - origin }, (_, at) => {
      const token = solved.get(origin + at);
      return {
        kind: 'settled',
        id: token,
        text: brief(pieceOf(track, token)),
        hover: `<b>${named(pieceOf(track, token))}</b><br>${word('view.settled')}`,
      };
    });
  const fed = ({ start, before, after, nodes, n }, at) => [
    ...settled(start),
    ...before.map((token, place) => {
      const { status, source } = nodes[place];
      const earlier = passes[at - 1];
      const was = earlier?.after[start + place - earlier.start];
      const kind = status === 'never-reached' ? (was === undefined ? 'fill' : 'guess') : status;
      return {
        kind,
        id: token,
        text: brief(pieceOf(track, token)),
        glyph: status === 'never-reached' ? '' : GLYPHS[status],
        hover: [
          `<b>${named(pieceOf(track, token))}</b>`,
          `${word('view.pass', { n })}, ${word('view.place', { n: start + place + 1 })}, ${escape(source)}`,
          word(`status.${status}`),
          after[place] !== token && word('view.becomes', { token: named(pieceOf(track, after[place])) }),
        ]
          .filter(Boolean)
          .join('<br>'),
      };
    }),
  ];
  const next = [
    ...settled(last.start),
    ...last.after.map((token, place) => ({
      kind: place < last.fixed ? 'settled' : place === last.fixed ? 'own' : 'guess',
      id: token,
      text: brief(pieceOf(track, token)),
      glyph: place === last.fixed ? GLYPHS.corrected : '',
      hover: `<b>${named(pieceOf(track, token))}</b><br>${word(place <= last.fixed ? 'view.settled' : 'view.nextGuess')}`,
    })),
  ];
  const { trace, layout } = cells({
    rows: [...passes.map(fed), next],
    fills: {
      settled: tint(colours.accepted, 0.18),
      accepted: tint(colours.accepted, 0.55),
      rejected: tint(colours.rejected, 0.35),
      own: tint(colours.corrected, 0.5),
      guess: tint(colours.plain, 0.22),
      fill: tint(colours.plain, 0.08),
    },
    names: [...passes.map(({ n }) => word('view.pass', { n })), word('view.next')],
    top: Array.from({ length: last.start + last.after.length - origin }, (_, at) => String(origin + at + 1)),
    x: word('view.textPosition'),
    colours,
    width,
    row: 24,
    column: 46,
  });
  return {
    data: [trace],
    layout,
    scroll: (last.start - origin) / (last.start + last.after.length - origin),
    caption: word(last.fixed || last.before.length === 1 ? 'view.jacobi' : 'view.unsolved', {
      pass: last.n,
      n: last.before.length,
      fixed: last.fixed,
      start: last.start + last.fixed + 1,
    }),
  };
}
