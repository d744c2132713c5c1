// A grid of cells with text in them, as a Plotly heatmap: every cell is of a kind, and a kind has a fill.

import { MONO, clip, escape, frame } from './frame.js';

const RIGHT = 8;
const CHARACTER = 6.7; // px of a monospaced character at the size used
const ROW = 26;
const COLUMN = 54;

// `rows`, the top one first, are lists of cells or null: { kind, text, glyph, hover, id }. `fills` gives the colour of
// each kind, `names` what is written beside the rows, `top` what is written below the columns, `x` their title. Text
// that does not fit is cut; no column is narrower than `column`, so in a narrow box the grid is wider than the box.
export function cells({ rows, fills, names, top, x, colours, width, row = ROW, column = COLUMN, gap = 2, height }) {
  const kinds = Object.keys(fills);
  const columns = Math.max(1, ...rows.map((line) => line.length));
  const left = 12 + CHARACTER * Math.max(0, ...names.map(breadth));
  const needed = left + RIGHT + columns * column;
  const room = Math.max(width, needed) - left - RIGHT;
  const fits = Math.floor((room / columns - gap - 4) / CHARACTER);
  const written = ({ glyph = '', text = '' }) => escape(clip([glyph, text].filter(Boolean).join(' '), fits));
  const grid = (read) =>
    rows.map((line) => Array.from({ length: columns }, (_, at) => (line[at] ? read(line[at]) : null)));
  const bottom = x ? 40 : top ? 24 : 8;
  const base = frame(colours, height ?? 4 + bottom + row * Math.max(1, rows.length));
  return {
    trace: {
      type: 'heatmap',
      meta: kinds,
      z: grid(({ kind }) => kinds.indexOf(kind)),
      customdata: grid(({ id = null }) => id),
      text: grid(written).map((line) => line.map((text) => text ?? '')),
      hovertext: grid(({ hover = '' }) => hover).map((line) => line.map((text) => text ?? '')),
      hoverinfo: 'text',
      hoverongaps: false,
      texttemplate: '%{text}',
      textfont: { family: MONO, size: 11, color: colours.ink },
      zmin: -0.5,
      zmax: kinds.length - 0.5,
      colorscale: kinds.flatMap((kind, at) => [
        [at / kinds.length, fills[kind]],
        [(at + 1) / kinds.length, fills[kind]],
      ]),
      showscale: false,
      xgap: gap,
      ygap: gap,
    },
    layout: {
      ...base,
      ...(needed > width && { width: needed }),
      showlegend: false,
      hovermode: 'closest',
      margin: { l: left, r: RIGHT, t: 4, b: bottom },
      xaxis: {
        ...base.xaxis,
        automargin: false,
        showgrid: false,
        zeroline: false,
        ticks: '',
        title: { text: x ?? '', standoff: 6 },
        range: [-0.5, columns - 0.5],
        tickvals: top ? top.map((_, at) => at) : [],
        ticktext: top ? thinned(top, columns, room) : [],
        tickangle: 0,
      },
      yaxis: {
        ...base.yaxis,
        automargin: false,
        showgrid: false,
        zeroline: false,
        ticks: '',
        range: [rows.length - 0.5, -0.5],
        tickvals: names.map((_, at) => at),
        ticktext: names.map(escape),
        tickfont: { size: 11, family: MONO },
      },
    },
  };
}

// The width of a text in characters: Chinese ones are twice as wide.
const breadth = (text) => text.replace(/[\p{Script=Han}\u3000-\u303f\uff00-\uffef]/gu, '  ').length;

// As many of the columns' names as have room.
function thinned(top, columns, width) {
  const longest = Math.max(1, ...top.map(breadth));
  const every = Math.ceil((longest * 7 + 6) / (width / columns));
  return top.map((name, at) => (at % every ? '' : escape(name)));
}
