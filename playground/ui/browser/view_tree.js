// The proposals of a step as a tree that can be looked into.

import { MONO, SYMBOLS, escape, frame, isVeiled, named, nothing, quoted, standing } from './frame.js';
import { pieceOf } from './log.js';
import { phrase } from './phrases.js';
import { lost, short } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { lastPiece, layOut } from './tree.js';
import { limitOf } from './trials.js';
import { word } from './words.js';

const ROOMY = 12; // rows up to which every node is named
const LINE = 16; // px of a line of text
const TRUNK = 0.4; // how far along an edge it bends
const DASHED = { rejected: 'dash', 'never-reached': 'solid' };
const THICK = ['accepted', 'corrected', 'bonus', 'plain'];
const ORDER = ['never-reached', 'proposed', 'rejected', 'accepted', 'corrected', 'bonus', 'plain', 'unknown'];

// Depth to the right. A node has the place that its path of ranks has in the union of the run's trees, so it stays
// where it is from step to step; the target's own token has a row of its own below.
export function tokenTree(log, lane, head, colours, width = 640) {
  const { track, count, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  const plan = layOut(track.shape);
  const roomy = plan.height <= ROOMY;
  const most = Math.max(3, Math.floor(width / (plan.depth + 2) / 7.5) - 1);
  const where = step.places.map((place) => [plan.depths[place], plan.rows[place]]);
  const end = step.nodes.reduce((last, { status }, at) => (status === 'accepted' ? at : last), -1);
  const wrong = step.nodes.indexOf(lost(step));
  const own = step.emitted.find(({ status }) => status !== 'accepted');
  const from = (node) => (node < 0 ? [0, 0] : where[node]);
  const ownRow = Math.max(1, plan.height - 1 + Math.max(1, plan.height / 12));
  const height = Math.max(220, Math.min(460, 90 + 24 * (plan.height + 1)));
  const line = (LINE * (ownRow + 5)) / (height - 90); // rows that a line of text takes
  // Whether there is room for a name over a node: no other so near above it.
  const free = (node) => {
    const [depth, row] = where[node];
    return !where.some(([other, above]) => other === depth && above < row && row - above < line);
  };
  const marks = step.nodes.map((node, at) => ({
    at: where[at],
    from: from(node.parent),
    status: node.status,
    token: node.token,
    name:
      roomy || node.status === 'accepted' || at === wrong || free(at) ? named(pieceOf(track, node.token), most) : '',
    hover: facts(track, step, at),
  }));
  if (own) {
    const start = from(end);
    const at = [start[0] + 1, ownRow];
    const hover = `<b>${named(pieceOf(track, own.token))}</b><br>${GLYPHS[own.status]} ${word(`status.${own.status}`)}: ${word(`meaning.${own.status}`)}`;
    marks.push({
      at,
      from: start,
      status: own.status,
      token: own.token,
      name: named(pieceOf(track, own.token), most),
      hover,
    });
  }
  const size = roomy ? 12 : plan.height > 40 ? 7 : 9;
  // Among crowded nodes a name stands over the line that leads to its node, where it covers no other.
  const spot = roomy ? 'top center' : 'top left';
  const groups = ORDER.map((status) => [status, marks.filter((mark) => mark.status === status)]).filter(
    ([, group]) => group.length,
  );
  const base = frame(colours, height);
  return {
    data: [
      ...groups.map(([status, group]) => edges(status, group, colours)),
      {
        ...points(
          'plain',
          [{ at: [0, 0], token: null, name: named(lastPiece(track, count), most), hover: word('lastToken') }],
          size,
          'top right',
          colours,
        ),
        meta: 'last',
        showlegend: false,
      },
      ...groups.map(([status, group]) => points(status, group, size, spot, colours)),
    ],
    layout: {
      ...base,
      hovermode: 'closest',
      margin: { l: 8, r: 8, t: 4, b: 34 },
      xaxis: {
        ...base.xaxis,
        showgrid: false,
        zeroline: false,
        range: [-0.35, plan.depth + 1.75],
        tickvals: Array.from({ length: plan.depth + 2 }, (_, at) => at),
        ticktext: Array.from({ length: plan.depth + 2 }, (_, at) => (at ? word('ahead', { n: at }) : '')),
        title: { text: word('view.depth'), standoff: 6 },
      },
      yaxis: { ...base.yaxis, visible: false, range: [ownRow + (roomy ? 0.7 : 2), roomy ? -1.1 : -3] },
    },
    caption: caption(track, step, own),
  };
}

// A bent line per node. Siblings leave their parent as one trunk, the target's own token a little later.
function edges(status, group, colours) {
  const bend = group.flatMap(({ at: [x1, y1], from: [x0, y0] }) => [
    [x0, y0],
    [x0 + TRUNK * (x1 - x0), y0],
    [x0 + TRUNK * (x1 - x0), y1],
    [x1, y1],
    [null, null],
  ]);
  return {
    type: 'scatter',
    mode: 'lines',
    meta: `edges ${status}`,
    x: bend.map(([x]) => x),
    y: bend.map(([, y]) => y),
    line: { color: colours[status], width: THICK.includes(status) ? 4 : 1.2, dash: DASHED[status] ?? 'solid' },
    opacity: status === 'never-reached' ? 0.6 : 1,
    hoverinfo: 'skip',
    showlegend: false,
  };
}

function points(status, group, size, spot, colours) {
  return {
    type: 'scatter',
    mode: 'markers+text',
    name: word(`status.${status}`),
    meta: status,
    x: group.map(({ at: [x] }) => x),
    y: group.map(({ at: [, y] }) => y),
    customdata: group.map(({ token }) => token),
    text: group.map(({ name }) => name),
    textposition: spot,
    textfont: { family: MONO, size: 12, color: status === 'never-reached' ? colours.muted : colours.ink },
    hovertext: group.map(({ hover }) => hover),
    hoverinfo: 'text',
    cliponaxis: false,
    marker: {
      symbol: SYMBOLS[status],
      size: status === 'rejected' ? size - 2 : size,
      color: colours[status],
      line: { width: 1.5, color: colours[status] },
    },
  };
}

// What the note at the pointer says of a node: Plotly's line breaks between texts that are escaped.
function facts(track, step, at) {
  const node = step.nodes[at];
  const guess = step.view.nodes?.[at];
  const numbers = [
    [word('tip.head'), guess?.[2]],
    [word('tip.p'), node.p],
    [word('tip.q'), node.q],
    [word('tip.u'), node.u],
    [word(limitOf(node)), node.threshold],
  ].filter(([, value]) => value != null);
  return [
    `<b>${named(pieceOf(track, node.token))}</b>`,
    `${GLYPHS[node.status]} ${word(`status.${node.status}`)}`,
    node.source && `${word('tip.source')} ${escape(phrase(node.source))}`,
    ...numbers.map(([name, value]) => `${name} ${short(value)}`),
    escape(phrase(node.reason)),
    `${word('tip.id')} ${node.token}`,
  ]
    .filter(Boolean)
    .join('<br>');
}

function caption(track, step, own) {
  if (isVeiled(step)) return word('view.veiled', { n: step.nodes.length });
  const kept = step.nodes.filter(({ status }) => status === 'accepted').map(({ token }) => quoted(track, token));
  const told = [
    step.nodes.length
      ? word('view.tree', { n: step.nodes.length, accepted: kept.join(' ') || word('view.none') })
      : phrase(step.reason) || word('meaning.plain'),
  ];
  if (own) told.push(`${GLYPHS[own.status]} ${quoted(track, own.token)}: ${word(`meaning.${own.status}`)}`.trim());
  return told.join(' · ');
}
