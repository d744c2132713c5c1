// The sequences of a batch over the passes they share, and what of every pass was padding.

import { MONO, frame, nothing, tickEvery, tint } from './frame.js';
import { countAt } from './log.js';
import { word } from './words.js';

const sum = (list) => list.reduce((total, value) => total + value, 0);

const PASSES = 100; // columns: the latest before the playhead

// Above, a row per sequence: how many tokens each pass gave it; after its end it idles. Below, the rows of each pass:
// a pass is as wide as its widest sequence, for all of them, and what the others do not fill is padding.
export function batchRows(log, lane, head, colours) {
  const tracks = log.lanes[lane]?.tracks ?? [];
  const counts = tracks.map((track) => countAt(track, head));
  const passes = Math.max(0, ...counts);
  if (!passes) return nothing(colours);
  const size = log.lanes[lane].settings.batch ?? tracks.length;
  const from = Math.max(0, passes - PASSES);
  const columns = Array.from({ length: passes - from }, (_, at) => from + at);
  const step = (row, pass) => (pass < counts[row] ? tracks[row].steps[pass] : undefined);
  const ended = (row, pass) => Boolean(tracks[row].steps[pass - 1]?.finish) || pass >= tracks[row].steps.length;
  const x = columns.map((pass) => pass + 1);
  const most = Math.max(2, ...tracks.map(({ most: tokens }) => tokens));
  const gained = tracks.map((_, row) =>
    columns.map((pass) => step(row, pass)?.emitted.length ?? (ended(row, pass) ? 0 : null)),
  );
  // A pass whose steps have not all come yet has no width so far.
  const rowsOf = columns.map((pass) => {
    const rows = tracks.flatMap((_, row) => step(row, pass) ?? []);
    return rows.length === rows[0]?.batch ? rows.map((one) => one.rows) : [];
  });
  const used = rowsOf.map(sum);
  const padded = rowsOf.map((rows, at) => size * Math.max(0, ...rows) - used[at]);
  const names = tracks.map((_, row) => word('view.sequence', { n: row + 1 }));
  const bars = (name, meta, y, color, shape) => ({
    type: 'bar',
    name,
    meta,
    x,
    y,
    yaxis: 'y2',
    marker: {
      color,
      line: { width: 0 },
      pattern: { shape, fillmode: 'overlay', fgcolor: colours.paper, size: 5, solidity: 0.3 },
    },
    hovertemplate: '%{y}',
  });
  const base = frame(colours, 170 + 22 * tracks.length);
  const share = 0.62;
  return {
    data: [
      {
        type: 'heatmap',
        meta: 'tokens',
        x,
        y: tracks.map((_, row) => row),
        z: gained,
        zmin: 0,
        zmax: most,
        colorscale: [
          [0, tint(colours.plain, 0.15)],
          [0.001, tint(colours.accepted, 0.15)],
          [1, tint(colours.accepted, 0.65)],
        ],
        showscale: false,
        showlegend: false,
        xgap: columns.length > 60 ? 0.5 : 1.5,
        ygap: 2,
        text: gained.map((line) =>
          line.map((tokens) => (columns.length > 40 || tokens === null ? '' : tokens ? String(tokens) : '–')),
        ),
        texttemplate: '%{text}',
        textfont: { family: MONO, size: 11, color: colours.ink },
        hovertext: gained.map((line, row) =>
          line.map(
            (tokens, at) =>
              `${names[row]}, ${word('view.pass', { n: x[at] })}: ${tokens ? word('count', { n: tokens }) : word('view.idle')}`,
          ),
        ),
        hoverinfo: 'text',
        hoverongaps: false,
      },
      bars(word('view.used'), 'used', used, colours.plain, ''),
      bars(word('view.padding'), 'padding', padded, colours.rejected, 'x'),
    ],
    layout: {
      ...base,
      barmode: 'stack',
      bargap: 0.15,
      hovermode: 'closest',
      xaxis: {
        ...base.xaxis,
        title: { text: word('view.passAxis') },
        range: [from + 0.4, Math.max(8, passes) + 0.6],
        anchor: 'y2',
        dtick: tickEvery(Math.max(8, columns.length)),
        showgrid: false,
      },
      yaxis: {
        ...base.yaxis,
        domain: [1 - share, 1],
        range: [tracks.length - 0.5, -0.5],
        tickvals: tracks.map((_, row) => row),
        ticktext: names,
        showgrid: false,
        zeroline: false,
      },
      yaxis2: {
        ...base.yaxis,
        title: { text: word('view.rowsAxis') },
        domain: [0, 0.9 * (1 - share)],
        rangemode: 'tozero',
        nticks: 4,
      },
    },
    caption: word('view.batch', {
      n: tracks.length,
      passes,
      tokens: sum(tracks.map((track, row) => track.totals[counts[row] - 1]?.emitted ?? 0)),
      running: tracks.filter((_, row) => !tracks[row].steps[counts[row] - 1]?.finish).length,
      percent: Math.round((100 * sum(padded)) / Math.max(1, sum(padded) + sum(used))),
    }),
  };
}
