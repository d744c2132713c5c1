// The rows of the key-value cache along the steps: what was there, what the pass added, what of that stayed.

import { HATCH, frame, nothing, stackedBySteps, standing, tint } from './frame.js';
import { word } from './words.js';

const STEPS = 40; // the latest steps before the playhead

// What a step did to the cache, in rows. Side rows (a lookahead window) never stay.
export function cacheRows({ cache_before: before, cache_after: after, rows, side_rows: side }) {
  return { before, kept: after - before, discarded: rows - side - (after - before), side };
}

// One column per step, from the cache's own rows upwards. The axis begins near the rows that change.
export function cacheStrip(log, lane, head, colours) {
  const { track, count, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  const from = Math.max(0, count - STEPS);
  const shown = track.steps.slice(from, count).map(cacheRows);
  const x = shown.map((_, at) => from + at + 1);
  const bottom = Math.max(0, shown[0].before - 10);
  const top = Math.max(...shown.map(({ before, kept, discarded, side }) => before + kept + discarded + side));
  const bars = (part, color, shape) => ({
    type: 'bar',
    name: word(`cache.${part}`),
    meta: part,
    x,
    y: shown.map((rows) => rows[part]),
    marker: {
      color,
      line: { width: 0 },
      pattern: { shape, fillmode: 'overlay', fgcolor: colours.paper, size: 5, solidity: 0.25 },
    },
    hovertemplate: '%{y}',
  });
  const base = frame(colours, 300);
  const now = shown.at(-1);
  return {
    data: [
      bars('before', tint(colours.plain, 0.55), ''),
      bars('kept', colours.accepted, ''),
      bars('discarded', colours.rejected, HATCH.rejected),
      ...(shown.some(({ side }) => side) ? [bars('side', colours['never-reached'], HATCH['never-reached'])] : []),
    ],
    layout: {
      ...stackedBySteps(base, from, count),
      yaxis: { ...base.yaxis, title: { text: word('cache.axis') }, range: [bottom, top + 1] },
    },
    caption:
      word('view.cache', { ...now, n: count, gone: now.discarded + now.side, after: step.cache_after }) +
      (now.side ? ` ${word('view.windowRows', { n: now.side })}` : ''),
  };
}
