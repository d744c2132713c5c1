// The race itself.

import { NO_TOTALS } from './figures.js';
import { DASHES, escape, frame } from './frame.js';
import { countAt, trackOf } from './log.js';
import { number, word } from './words.js';

// Tokens of every lane against the seconds that the lane itself has used.
export function pace(log, _, head, colours) {
  const tracks = log.lanes.map((_, lane) => trackOf(log, lane));
  const data = log.lanes.map(({ title }, lane) => {
    const totals = tracks[lane]?.totals.slice(0, countAt(tracks[lane], head)) ?? [];
    return {
      type: 'scatter',
      mode: 'lines',
      name: escape(title),
      meta: lane,
      x: [0, ...totals.map((total) => total.seconds)],
      y: [0, ...totals.map((total) => total.emitted)],
      line: { color: colours.lanes[lane], dash: DASHES[lane], width: 2.5, shape: 'hv' },
      hovertemplate: word('view.paceTip', { tokens: '%{y}', seconds: '%{x:.2f}' }),
    };
  });
  const ends = tracks.map((track) => track?.totals.at(-1)).filter(Boolean);
  const base = frame(colours);
  return {
    data,
    layout: {
      ...base,
      hovermode: 'closest',
      xaxis: {
        ...base.xaxis,
        title: { text: word('seconds') },
        range: [0, 1.02 * Math.max(0.01, ...ends.map((total) => total.seconds))],
      },
      yaxis: {
        ...base.yaxis,
        title: { text: word('tokens') },
        range: [0, 1.05 * Math.max(8, ...ends.map((total) => total.emitted))],
      },
    },
    caption: log.lanes
      .map(({ title }, lane) => {
        const { emitted, seconds } = tracks[lane]?.totals[countAt(tracks[lane], head) - 1] ?? NO_TOTALS;
        return word('view.pace', { title, emitted, seconds: number(seconds, 2) });
      })
      .join(' · '),
  };
}
