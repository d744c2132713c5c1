// The proposals of one step as a tree: depth to the right, the target's own token on a row of its own below.

import { label, svg } from './dom.js';
import { pieceOf } from './log.js';
import { phrase } from './phrases.js';
import { chance, short } from './sentence.js';
import { GLYPHS, shapeOf } from './statuses.js';
import { limitOf } from './trials.js';
import { word } from './words.js';

const LEFT = 24;
const TOP = 46;
const OWN_ROOM = 110; // beside the target's own token, for its text

// Column and row of every place of a track's shape. A first child continues its parent's row, so the drafter's first
// choice runs straight and its alternatives hang below; rows are never shared.
export function layOut(shape) {
  const rows = [];
  let next = 0;
  const visit = (place) => {
    const { children } = shape.places[place];
    rows[place] = next;
    children.forEach((child, rank) => {
      if (rank) next += 1;
      visit(child);
    });
  };
  shape.roots.forEach((root, rank) => {
    if (rank) next += 1;
    visit(root);
  });
  const depths = shape.places.map((place) => place.depth);
  return { rows, depths, height: shape.roots.length ? next + 1 : 0, depth: Math.max(0, ...depths) };
}

// How much room a tree of so many rows gets: distance between rows, size of marks, and what is written at them:
// names and probabilities, names, or the names along the accepted path only.
function density(rows) {
  if (rows <= 2) return { pitch: 62, size: 6, writing: 'numbers' };
  if (rows <= 12) return { pitch: 30, size: 6, writing: 'names' };
  const pitch = Math.max(7, Math.min(18, 340 / rows));
  return { pitch, size: Math.min(6, 0.42 * pitch), writing: 'path' };
}

// Whether probabilities are written at the nodes of a track's trees.
export const writesNumbers = (track) => density(layOut(track.shape).height).writing === 'numbers';

export function drawTree(box, track, count, tip) {
  const step = track.steps[count - 1];
  const plan = layOut(track.shape);
  const { pitch, size, writing } = density(plan.height);
  const column = Math.max(88, Math.min(170, (box.clientWidth - LEFT - OWN_ROOM) / (plan.depth + 1)));
  const x = (depth) => LEFT + depth * column;
  const y = (row) => TOP + row * pitch;
  const ownY = y(Math.max(0, plan.height - 1)) + Math.max(34, pitch);
  const [width, height] = [x(plan.depth + 1) + OWN_ROOM, ownY + 22];

  const root = [x(0), y(0)];
  const where = step.places.map((place) => [x(plan.depths[place]), y(plan.rows[place])]);
  const from = (node) => (node < 0 ? root : where[node]);
  const end = step.nodes.reduce((last, node, at) => (node.status === 'accepted' ? at : last), -1);
  const own = step.emitted.find((token) => token.status !== 'accepted');
  const ownAt = [from(end)[0] + column, ownY];

  const drawn = step.nodes.map((node, at) => {
    const named =
      writing !== 'path' || node.status === 'accepted' || (node.status === 'rejected' && node.parent === end);
    const marked = mark(where[at], node.status, size, (event) => tip.show(event, nodeFacts(track, node)));
    if (named) write(marked, clip(label(pieceOf(track, node.token)), column), writing === 'path' ? 'over' : 'above');
    if (writing === 'numbers') writeNumbers(marked, node);
    return marked;
  });
  const edges = step.nodes.map((node, at) => edge(from(node.parent), where[at], node.status));
  // The accepted path lies on top of the others.
  edges.sort((one, other) => one.classList.contains('accepted') - other.classList.contains('accepted'));
  const start = write(mark(root, 'plain', size), clip(label(lastPiece(track, count)), column), 'above');
  const target = own && mark(ownAt, own.status, 6, (event) => tip.show(event, ownFacts(track, own)));
  if (own) write(target, label(pieceOf(track, own.token)), 'beside');

  const heading = (depth) => svg('text', { class: 'axis', x: x(depth) - 6, y: 11 }, word('place.ahead', { n: depth }));
  box.replaceChildren(
    svg(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': word('treeLabel') },
      svg('text', { class: 'axis', x: x(0) - 6, y: 11 }, word('lastToken')),
      Array.from({ length: plan.depth + 1 }, (_, at) => heading(at + 1)),
      svg('line', { class: 'rule', x1: x(0) - 6, x2: width, y1: ownY - 18, y2: ownY - 18 }),
      svg('text', { class: 'axis', x: x(0) - 6, y: ownY + 4 }, word('targetRow')),
      edges,
      own && edge(from(end), ownAt, own.status, OWN_BEND),
      start,
      drawn,
      target,
    ),
  );
  // What the target said is what the step is about: a narrow box shows that end.
  box.scrollLeft = ownAt[0] + OWN_ROOM - box.clientWidth;
}

const clip = (text, width) => {
  const fits = Math.floor((width - 12) / 8);
  return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
};

// The piece of the last token committed before step `count - 1`.
export function lastPiece(track, count) {
  const token = track.steps[count - 2]?.emitted.at(-1)?.token;
  return token === undefined ? track.promptEnd : pieceOf(track, token);
}

const BEND = [0.5, 0.5];
const OWN_BEND = [1, 0.75]; // late, past the numbers under the node that it leaves

function edge([x0, y0], [x1, y1], status, bend = BEND) {
  const [leave, arrive] = bend.map((share) => x0 + share * (x1 - x0));
  return svg('path', { class: `edge ${status}`, d: `M${x0} ${y0}C${leave} ${y0} ${arrive} ${y1} ${x1} ${y1}` });
}

function mark([x, y], status, size, onEnter = () => {}) {
  const reach = Math.max(4, 1.5 * size);
  return svg(
    'g',
    { class: `node ${status}`, transform: `translate(${x} ${y})`, onpointerenter: onEnter },
    svg('path', { class: 'mark', d: shapeOf(status, status === 'rejected' ? 0.75 * size : size) }),
    svg('rect', { class: 'reach', x: -reach, y: -reach, width: 2 * reach, height: 2 * reach }),
  );
}

const SPOTS = { above: { x: -6, y: -12 }, beside: { x: 12, y: 4.5 }, over: { x: 9, y: -3 } };

function write(node, text, spot) {
  node.prepend(svg('text', { class: `name ${spot}`, ...SPOTS[spot] }, text));
  return node;
}

function writeNumbers(node, { p, q }) {
  const known = [
    ['p', p],
    ['q', q],
  ].filter(([, value]) => value != null);
  known.forEach(([name, value], line) =>
    node.prepend(
      svg('text', { class: 'number', x: -6, y: 22 + 14 * line }, word(`chance.${name}`, { x: chance(value) })),
    ),
  );
}

const title = (track, { token, status }) => [
  label(pieceOf(track, token)),
  `${GLYPHS[status]} ${word(`status.${status}`)}`,
  status,
];

function nodeFacts(track, node) {
  const facts = [
    ['tip.p', node.p],
    ['tip.q', node.q],
    ['tip.u', node.u],
    [limitOf(node), node.threshold],
  ];
  return {
    title: title(track, node),
    facts: facts.filter(([, value]) => value != null).map(([key, value]) => [word(key), short(value)]),
    reason: [
      phrase(node.reason),
      node.source && `${word('tip.source')} ${phrase(node.source)}`,
      `${word('tip.id')} ${node.token}`,
    ]
      .filter(Boolean)
      .join(' · '),
  };
}

const ownFacts = (track, own) => ({
  title: title(track, own),
  facts: [],
  reason: `${word(`meaning.${own.status}`)} · ${word('tip.id')} ${own.token}`,
});
