// A grid of cells with text in them, as a Plotly heatmap: every cell is of a kind, and a kind has a fill.

import { MONO, clip, escape, frame } from './frame.js';

const CHARACTER = 6.7; // px of a monospaced character at the size used
const ROW = 26;

// `rows`, the top one first, are lists of cells or null: { kind, text, glyph, hover, id }. `fills` gives the colour of
// each kind, `names` what is written beside the rows, `top` what is written below the columns, `x` their title. Text
// that does not fit a cell is cut, then left to its glyph: colour, glyph and the note at the pointer stay.
export function cells({ rows, fills, names, top, x, y, colours, width, row = ROW, gap = 2, height }) {
  const kinds = Object.keys(fills);
  const columns = Math.max(1, ...rows.map((line) => line.length));
  const left = 12 + CHARACTER * Math.max(0, ...names.map((name) => name.length));
  const fits = Math.floor(((width - left - 8) / columns - gap - 4) / CHARACTER);
  const written = ({ glyph = '', text = '' }) => {
    const whole = [glyph, text].filter(Boolean).join(' ');
    if (fits >= 4 || whole.length <= fits) return escape(clip(whole, fits));
    return fits >= 1 ? escape(glyph) : '';
  };
  const grid = (read) =>
    rows.map((line) => Array.from({ length: columns }, (_, at) => (line[at] ? read(line[at]) : null)));
  const base = frame(colours, height ?? 60 + row * Math.max(1, rows.length));
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
      showlegend: false,
      hovermode: 'closest',
      margin: { l: left, r: 8, t: 4, b: x ? 40 : 24 },
      xaxis: {
        ...base.xaxis,
        automargin: false,
        showgrid: false,
        zeroline: false,
        title: { text: x ?? '', standoff: 6 },
        range: [-0.5, columns - 0.5],
        tickvals: top ? top.map((_, at) => at) : [],
        ticktext: top ? thinned(top, columns, width - left) : [],
        tickangle: 0,
      },
      yaxis: {
        ...base.yaxis,
        automargin: false,
        showgrid: false,
        zeroline: false,
        title: { text: y ?? '' },
        range: [rows.length - 0.5, -0.5],
        tickvals: names.map((_, at) => at),
        ticktext: names.map(escape),
        tickfont: { size: 11, family: MONO },
      },
    },
  };
}

// As many of the columns' names as have room.
function thinned(top, columns, width) {
  const longest = Math.max(1, ...top.map((name) => name.length));
  const every = Math.ceil((longest * 7 + 6) / (width / columns));
  return top.map((name, at) => (at % every ? '' : escape(name)));
}
