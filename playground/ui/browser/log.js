// The log of one run: every step received, in order of arrival. Whatever is drawn is drawn from it and a playhead.
//
// A log has lanes; a lane has tracks, one per sequence of its batch (nearly always one); a track has steps and the
// running totals after each. `order` has them all as they arrived: a playhead is a position in it.
// `header` is the first line of its trace file, as text. Messages are those of wire.py. `receive` alone changes a log.

import { STATUSES } from './statuses.js';
import { NO_TOTALS, addStep } from './figures.js';
import { phrase } from './phrases.js';

export function emptyLog() {
  return {
    run: null,
    live: false,
    end: null,
    title: '',
    machine: '',
    recorded: '',
    lanes: [],
    order: [],
    seq: 0,
    lost: 0,
    notice: null,
  };
}

// The log after `message`: the same object, or a new one when the message opens a run.
export function receive(log, message) {
  if (message.notice !== undefined) log.notice = message.notice;
  if (message.header) log = open(message);
  if (message.run === undefined || message.run !== log.run || log.end || message.seq < log.seq) return log;
  log.lost += message.seq - log.seq;
  log.seq = message.seq + 1;
  for (const [lane, packed] of message.steps ?? []) append(log, lane, unpackStep(packed));
  if (message.amended) amend(log, message.amended);
  log.end = message.end ?? null;
  return log;
}

// The visitor stopped the run: whatever still arrives of it is not taken in.
export function stop(log) {
  if (log.run !== null && !log.end) log.end = 'stopped';
  if (log.notice?.kind === 'progress') log.notice = null;
  return log;
}

function open({ run, seq, live, header }) {
  const { title, machine, recorded, lanes } = JSON.parse(header);
  const log = { ...emptyLog(), run, seq, live, header, title, machine, recorded };
  const titles = titlesOf(lanes);
  return { ...log, lanes: lanes.map((lane, at) => ({ ...lane, title: titles[at], tracks: [], pieces: new Map() })) };
}

// What was known only at the end: the header anew, and steps in place of those that came before.
function amend(log, { header, steps }) {
  const { order, seq, lost, notice } = log;
  const place = (lane, { row = 0, index = 0 }) => `${lane} ${row} ${index}`;
  const known = new Map(steps.map(([lane, packed]) => [place(lane, packed), unpackStep(packed)]));
  Object.assign(log, open({ ...log, header }), { seq, lost, notice });
  for (const { lane, step } of order) append(log, lane, known.get(place(lane, step)) ?? step);
}

// Lanes of one title are told apart by the settings in which they differ, else by their number.
function titlesOf(lanes) {
  return lanes.map(({ title, settings }, at) => {
    const alike = lanes.filter((lane) => lane.title === title);
    if (alike.length < 2) return phrase(title);
    const names = Object.keys(settings).filter((name) => alike.some((lane) => lane.settings[name] !== settings[name]));
    const told = names
      .map((name) => `${phrase(name.replaceAll('_', ' '))} ${phrase(String(settings[name]))}`)
      .join(', ');
    return `${phrase(title)} · ${told || at + 1}`;
  });
}

// The tracks of a lane share its labels: the server sends each once.
const newTrack = ({ prompt_pieces: prompt, pieces }) => ({
  promptEnd: prompt.at(-1) ?? '',
  steps: [],
  totals: [],
  at: [],
  most: 0,
  output: [],
  pieces,
  shape: { places: [], roots: [] },
});

function append(log, lane, step) {
  const { tracks } = log.lanes[lane];
  const track = (tracks[step.row] ??= newTrack(log.lanes[lane]));
  track.steps.push(step);
  track.totals.push(addStep(track.totals.at(-1) ?? NO_TOTALS, step));
  track.at.push(log.order.length);
  track.most = Math.max(track.most, step.emitted.length);
  for (const { token } of step.emitted) track.output.push(token);
  for (const [token, piece] of Object.entries(step.pieces)) track.pieces.set(Number(token), piece);
  step.places = grow(track.shape, step.nodes);
  log.order.push({ lane, step });
}

// The union of all trees of a track, so that a node keeps its place from step to step: a node is known by its parent's
// place and its rank among its siblings. Returns the place of each node and extends `shape`.
function grow(shape, nodes) {
  const found = [];
  const seen = new Map();
  for (const { parent } of nodes) {
    const above = parent < 0 ? -1 : found[parent];
    const rank = seen.get(above) ?? 0;
    seen.set(above, rank + 1);
    const siblings = above < 0 ? shape.roots : shape.places[above].children;
    if (siblings[rank] === undefined) {
      siblings[rank] = shape.places.length;
      shape.places.push({ parent: above, depth: above < 0 ? 1 : shape.places[above].depth + 1, children: [] });
    }
    found.push(siblings[rank]);
  }
  return found;
}

// ---- the wire's compact form, undone -------------------------------------------------------------------------------

const SECONDS = { wait: 0, prefill: 0, draft: 0, forward: 0, acceptance: 0, bookkeeping: 0, others: 0 };
const NODE = { parent: -1, token: 0, status: 0, source: '', p: null, q: null, u: null, threshold: null, reason: '' };
const EMITTED = { token: 0, status: 0, text: '' };
const STEP = {
  index: 0,
  nodes: null,
  emitted: null,
  cache_before: 0,
  cache_after: 0,
  rows: 0,
  side_rows: 0,
  forwards: 1,
  row: 0,
  batch: 1,
  seconds: null,
  reason: '',
  finish: null,
  view: {},
  children: [],
  detail: [],
  pieces: {},
  counts: null,
};

export function unpackStep(packed) {
  return {
    ...STEP,
    ...packed,
    nodes: unpackColumns(packed.nodes, NODE),
    emitted: unpackColumns(packed.emitted, EMITTED),
    seconds: { ...SECONDS, ...packed.seconds },
    children: (packed.children ?? []).map(unpackStep),
  };
}

// Columns hold one value per item, or one for all; a column that is left out holds the default. A list is already whole.
function unpackColumns(columns, defaults) {
  if (Array.isArray(columns)) return columns;
  const { n, ...given } = columns ?? { n: 0 };
  return Array.from({ length: n }, (_, at) => {
    const item = { ...defaults };
    for (const name in given) item[name] = Array.isArray(given[name]) ? given[name][at] : given[name];
    item.status = STATUSES[item.status];
    return item;
  });
}

// ---- looking things up ---------------------------------------------------------------------------------------------

// How many steps of a track lie before position `head`.
export function countAt(track, head) {
  let low = 0;
  let high = track?.at.length ?? 0;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track.at[middle] < head) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The sequence of a lane that is drawn.
export const trackOf = (log, lane) => log.lanes[lane]?.tracks[0];

export const pieceOf = (track, token) => track.pieces.get(token) ?? `⟦${token}⟧`;

// ---- the trace file ------------------------------------------------------------------------------------------------

// The lines of the log as a trace file: the header as it came, every step, and a closing line.
export function traceLines(log) {
  const steps = log.order.map(({ lane, step: { places, ...step } }) => ({ lane, step }));
  return [log.header, ...[...steps, { end: steps.length }].map(ascii)];
}

// The message that a trace file amounts to. Throws an Error for a file that is cut off; what it holds was checked when
// it was written.
export function fileMessage(text, run) {
  const [header, ...rows] = text.trim().split('\n');
  const lines = rows.map((row) => JSON.parse(row));
  if (lines.pop()?.end !== lines.length) throw new Error('the trace file is cut off');
  return {
    run,
    seq: 0,
    live: false,
    header,
    steps: lines.map(({ lane, step }) => [lane, step]),
    end: 'done',
    notice: null,
  };
}

const ascii = (value) =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
