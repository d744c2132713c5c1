// The proposals of one step as a tree: depth to the right, the target's own token on a row of its own below.

import { label, svg } from './dom.js';
import { pieceOf } from './log.js';
import { short } from './sentence.js';
import { GLYPHS, shapeOf } from './statuses.js';
import { word } from './words.js';

const LEFT = 24;
const TOP = 46;
const MARK = 6;

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

// How much room a tree of so many rows gets: distance between rows, and whether nodes show their numbers and names.
function density(rows) {
  if (rows <= 2) return { pitch: 62, numbers: true, names: true };
  if (rows <= 14) return { pitch: 30, numbers: false, names: true };
  return { pitch: rows <= 28 ? 16 : 11, numbers: false, names: false };
}

export function drawTree(box, track, count, tip) {
  const step = track.steps[count - 1];
  const plan = layOut(track.shape);
  const { pitch, numbers, names } = density(plan.height);
  const column = Math.max(88, Math.min(170, (box.clientWidth - LEFT - 110) / (plan.depth + 1)));
  const x = (depth) => LEFT + depth * column;
  const y = (row) => TOP + row * pitch;
  const ownY = y(plan.height - 1) + Math.max(34, pitch);
  const width = x(plan.depth + 1) + 110;

  const where = step.nodes.map((_, at) => [x(plan.depths[step.places[at]]), y(plan.rows[step.places[at]])]);
  const from = (parent) => (parent < 0 ? [x(0), y(0)] : where[parent]);
  const end = step.nodes.reduce((last, node, at) => (node.status === 'accepted' ? at : last), -1);
  const own = step.emitted.find((token) => token.status !== 'accepted');
  const ownAt = [end < 0 ? x(1) : where[end][0] + column, ownY];

  const edges = step.nodes.map((node, at) => edge(from(node.parent), where[at], node.status));
  // The accepted path lies on top of the others.
  edges.sort((one, other) => one.classList.contains('accepted') - other.classList.contains('accepted'));
  const marks = step.nodes.map((node, at) => {
    const named = names || node.status === 'accepted' || (node.parent === end && node.status === 'rejected');
    return mark(where[at], node.status, {
      name: named ? clip(label(pieceOf(track, node.token)), column) : '',
      above: names,
      numbers: numbers
        ? [
            ['p', node.p],
            ['q', node.q],
          ]
            .filter(([, value]) => value != null)
            .map(([name, value]) => `${name} ${short(value)}`)
        : [],
      onEnter: (event) => tip.show(event, nodeFacts(track, node)),
    });
  });

  box.replaceChildren(
    svg(
      'svg',
      { viewBox: `0 0 ${width} ${ownY + 22}`, width, height: ownY + 22, role: 'img', 'aria-label': word('treeLabel') },
      svg('text', { class: 'axis', x: x(0) - MARK, y: 11 }, word('lastToken')),
      Array.from({ length: plan.depth + 1 }, (_, at) =>
        svg('text', { class: 'axis', x: x(at + 1) - MARK, y: 11 }, word('ahead', { n: at + 1 })),
      ),
      svg('line', { class: 'rule', x1: x(0) - MARK, x2: width, y1: ownY - 18, y2: ownY - 18 }),
      svg('text', { class: 'axis', x: x(0) - MARK, y: ownY + 4 }, word('targetRow')),
      edges,
      own && edge(from(end), ownAt, own.status),
      mark([x(0), y(0)], 'plain', { name: clip(label(lastPiece(track, count)), column), above: true }),
      marks,
      own &&
        mark(ownAt, own.status, {
          name: label(pieceOf(track, own.token)),
          onEnter: (event) => tip.show(event, ownFacts(track, own)),
        }),
    ),
  );
}

const clip = (text, width) => {
  const fits = Math.floor((width - 12) / 8);
  return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
};

// The piece of the last token committed before step `count - 1`.
function lastPiece(track, count) {
  const token = track.steps[count - 2]?.emitted.at(-1)?.token;
  return token === undefined ? track.promptEnd : pieceOf(track, token);
}

function edge([x0, y0], [x1, y1], status) {
  const bend = (x1 - x0) / 2;
  return svg('path', { class: `edge ${status}`, d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}` });
}

function mark([x, y], status, { name, above = false, numbers = [], onEnter = () => {} }) {
  const size = status === 'rejected' ? MARK - 1.5 : MARK;
  return svg(
    'g',
    { class: `node ${status}`, transform: `translate(${x} ${y})`, onpointerenter: onEnter },
    svg('path', { class: 'mark', d: shapeOf(status, size) }),
    name && svg('text', { class: 'name', ...(above ? { x: -MARK, y: -MARK - 6 } : { x: MARK + 6, y: 4.5 }) }, name),
    numbers.map((text, line) => svg('text', { class: 'number', x: -MARK, y: 22 + 14 * line }, text)),
    svg('rect', { class: 'reach', x: -9, y: -9, width: 18, height: 18 }),
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
    ['tip.threshold', node.threshold],
  ];
  return {
    title: title(track, node),
    facts: facts.filter(([, value]) => value != null).map(([key, value]) => [word(key), short(value)]),
    reason: [node.reason, node.source && `${word('tip.source')} ${node.source}`, `${word('tip.id')} ${node.token}`]
      .filter(Boolean)
      .join(' · '),
  };
}

const ownFacts = (track, own) => ({
  title: title(track, own),
  facts: [],
  reason: `${word(`meaning.${own.status}`)} · ${word('tip.id')} ${own.token}`,
});
