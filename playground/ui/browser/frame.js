// What the Plotly figures have in common.
//
// A figure is a pure function of (log, lane, head, colours, width): it returns Plotly's `data` and `layout`, and a
// `caption` that says the same in words, for everybody and for those who do not see the drawing. A figure wider than
// its box has `layout.width`, and `scroll` is the share of it at which to begin.

import { label } from './dom.js';
import { countAt, pieceOf, trackOf } from './log.js';
import { number, word } from './words.js';

export const DASHES = ['solid', 'dash', 'dot', 'dashdot'];
export const HATCH = { rejected: 'x', 'never-reached': '.', corrected: '/', bonus: '+' };
export const MONO = 'ui-monospace, monospace';

export const tickEvery = (length) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find((every) => length / every <= 12) ?? 1000;

// Plotly reads tags and entities in every text it is given: what a model or a file wrote must be none.
export const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

export function clip(text, most) {
  const chars = Array.from(text);
  return chars.length > most ? `${chars.slice(0, Math.max(1, most - 1)).join('')}…` : text;
}

// A piece of text as a label of at most so many characters, and the same for Plotly.
export const brief = (piece, most = 24) => clip(label(piece), most);
export const named = (piece, most) => escape(brief(piece, most));

// A token in a caption, where nothing needs escaping.
export const quoted = (track, token) => `“${brief(pieceOf(track, token))}”`;

// A lane's track, how many of its steps the playhead has passed, and the last of them.
export function standing(log, lane, head) {
  const track = trackOf(log, lane);
  const count = countAt(track, head);
  return { track, count, step: track?.steps[count - 1] };
}

// Whether the verdict on a step's proposals is still hidden, see predict.js.
export const isVeiled = (step) => step.nodes.some(({ status }) => status === 'proposed');

// A colour of the theme, thinned.
export function tint(colour, share) {
  const [, red, green, blue] = /^#(..)(..)(..)$/.exec(colour) ?? [];
  return red === undefined
    ? colour
    : `rgba(${[red, green, blue].map((part) => parseInt(part, 16)).join(',')},${share})`;
}

export const nothing = (colours, caption = word('view.nothing')) => {
  const { xaxis, yaxis, ...base } = frame(colours, 120);
  return { data: [], layout: { ...base, xaxis: { visible: false }, yaxis: { visible: false } }, caption };
};

// Marks of Plotly for the shapes that statuses.js gives in SVG.
export const SYMBOLS = {
  proposed: 'circle-open',
  accepted: 'circle',
  rejected: 'x',
  'never-reached': 'circle-open',
  corrected: 'diamond',
  bonus: 'triangle-up',
  plain: 'square',
  unknown: 'circle-open',
};

export function frame(colours, height = 260) {
  const axis = {
    gridcolor: colours.line,
    zerolinecolor: colours.line,
    linecolor: colours.line,
    showline: false,
    fixedrange: true,
    title: { standoff: 6 },
    tickfont: { size: 11 },
    automargin: true,
  };
  return {
    height,
    separators: number(0.5, 1)[1], // Plotly's axes and hover labels write the decimal sign as the text does
    margin: { l: 44, r: 8, t: 4, b: 34 },
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    font: { family: colours.font, size: 12, color: colours.muted },
    showlegend: true,
    legend: {
      orientation: 'h',
      x: 0,
      y: 1.01,
      yanchor: 'bottom',
      traceorder: 'normal',
      font: { size: 11 },
      itemwidth: 30,
      entrywidth: 0,
    },
    hoverlabel: {
      bgcolor: colours.paper,
      bordercolor: colours.line,
      font: { color: colours.ink, family: colours.font },
    },
    xaxis: axis,
    yaxis: axis,
  };
}

// Bars on top of each other, a bar for every step after `from` up to `count`.
export const stackedBySteps = (base, from, count) => ({
  ...base,
  barmode: 'stack',
  bargap: 0.12,
  hovermode: 'x unified',
  xaxis: {
    ...base.xaxis,
    title: { text: word('step') },
    range: [from + 0.4, Math.max(8, count) + 0.6],
    showgrid: false,
    dtick: tickEvery(Math.max(8, count - from)),
  },
});
