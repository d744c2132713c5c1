// The figures of a benchmark, as pure functions of its rows and the theme's colours.

import { DASHES, escape, frame } from './frame.js';
import { OVERALL } from './measure_table.js';
import { word } from './words.js';

// Speed-up of every lane by category over the first baseline, from the slowest round to the fastest.
export function speedFigure(rows, [base], colours) {
  const compared = rows.filter((row) => base in row.speedups);
  if (!compared.length) return null;
  const lanes = [...new Set(compared.map(({ lane }) => lane))];
  const data = lanes.map((lane, at) => {
    const own = compared.filter((row) => row.lane === lane);
    const found = own.map((row) => row.speedups[base]);
    return {
      type: 'bar',
      name: escape(lane),
      x: own.map(({ category }) => escape(category === OVERALL ? word('measure.overall') : category)),
      y: found.map(({ median }) => median),
      error_y: {
        type: 'data',
        symmetric: false,
        array: found.map(({ median, high }) => high - median),
        arrayminus: found.map(({ median, low }) => median - low),
        color: colours.ink,
        thickness: 1.5,
      },
      marker: { color: colours.lanes[at % colours.lanes.length], pattern: { shape: PATTERNS[at % PATTERNS.length] } },
      hovertemplate: '%{y:.2f}',
    };
  });
  const layout = titled(colours, '', word('measure.over', { lane: base }));
  return {
    data,
    layout: { ...layout, barmode: 'group', yaxis: { ...layout.yaxis, rangemode: 'tozero' }, shapes: [one(colours)] },
  };
}

// How often at least so many guesses of a step were accepted.
export function positionsFigure(rows, colours) {
  const own = rows.filter((row) => row.category === OVERALL && row.by_position.length);
  if (!own.length) return null;
  const data = own.map((row, at) => ({
    type: 'scatter',
    mode: 'lines+markers',
    name: escape(row.lane),
    x: row.by_position.map((_, place) => place + 1),
    y: row.by_position,
    line: { color: colours.lanes[at % colours.lanes.length], dash: DASHES[at % DASHES.length], width: 2 },
    hovertemplate: '%{y:.0%}',
  }));
  const layout = titled(colours, word('measure.place'), word('measure.placeShare'));
  return {
    data,
    layout: {
      ...layout,
      xaxis: { ...layout.xaxis, dtick: 1 },
      yaxis: { ...layout.yaxis, tickformat: '.0%', range: [0, 1.02] },
    },
  };
}

// A figure that the server drew, in the colours of the theme. A mark that is black there has the colour of text here.
export function themed(figure, colours) {
  const base = frame(colours, 320);
  const { xaxis, yaxis, annotations, shapes } = figure.layout;
  return {
    data: figure.data.map((trace) => ({
      ...trace,
      ...(trace.type === 'scatter' && { textfont: { color: colours.ink } }),
      ...(trace.marker?.color === '#111' && { marker: { ...trace.marker, color: colours.ink } }),
    })),
    layout: {
      ...base,
      shapes: (shapes ?? []).map((shape) => ({ ...shape, line: { color: colours.muted, ...shape.line } })),
      annotations: (annotations ?? []).map((one) => ({ ...one, font: { color: colours.ink, size: 11 } })),
      xaxis: { ...base.xaxis, ...xaxis, tickfont: { size: 11 } },
      yaxis: { ...base.yaxis, ...yaxis, tickfont: { size: 11 } },
    },
  };
}

// Expected speed-ups by a setting or by batch; `at` is where the panel stands.
export function expectedFigure(points, at, title, colours) {
  const layout = titled(colours, title, word('whatIf.speedup'), 220);
  const here = points.filter(([x]) => x === at);
  const marker = { color: colours.lanes[1], size: 11, symbol: 'diamond' };
  return {
    data: [
      {
        type: 'scatter',
        mode: 'lines+markers',
        x: points.map(([x]) => x),
        y: points.map(([, y]) => y),
        line: { color: colours.lanes[0], width: 2 },
        marker: { size: 5 },
        hovertemplate: '%{y:.2f}',
      },
      {
        type: 'scatter',
        mode: 'markers',
        x: here.map(([x]) => x),
        y: here.map(([, y]) => y),
        marker,
        hoverinfo: 'skip',
      },
    ],
    layout: {
      ...layout,
      showlegend: false,
      xaxis: {
        ...layout.xaxis,
        type: points.length > 12 ? 'linear' : 'log',
        tickvals: points.map(([x]) => x),
        ticktext: points.map(([x]) => `${x}`),
      },
      yaxis: { ...layout.yaxis, rangemode: 'tozero' },
      shapes: [one(colours)],
    },
  };
}

const PATTERNS = ['', '/', '.', 'x', '-', '+'];

const one = (colours) => ({
  type: 'line',
  xref: 'paper',
  x0: 0,
  x1: 1,
  y0: 1,
  y1: 1,
  line: { color: colours.muted, width: 1, dash: 'dot' },
});

function titled(colours, x, y, height = 260) {
  const base = frame(colours, height);
  return {
    ...base,
    xaxis: { ...base.xaxis, title: { text: escape(x), standoff: 6, font: { size: 11 } } },
    yaxis: { ...base.yaxis, title: { text: escape(y), standoff: 6, font: { size: 11 } } },
  };
}
