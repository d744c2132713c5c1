// The Plotly figures, as pure functions of the log and a position, and the gate that keeps them from holding up the page.

import { countAt, trackOf } from './log.js';
import { word } from './words.js';

export const DASHES = ['solid', 'dash', 'dot', 'dashdot'];

const KEPT = ['accepted', 'corrected', 'bonus', 'plain', 'unknown'];
const WASTED = ['rejected', 'never-reached'];
const HATCH = { rejected: 'x', 'never-reached': '.', corrected: '/', bonus: '+' };

const countOf = (items, status) => items.reduce((sum, item) => sum + (item.status === status), 0);

const WINDOW = 150; // steps on the timeline: more bars than that are neither readable nor quick to draw

// Per step: upwards the tokens that entered the text, downwards the proposals thrown away, each on its own scale.
// Long runs show the last steps before the playhead.
export function timeline(log, lane, head, colours) {
  const track = trackOf(log, lane);
  const steps = track?.steps ?? [];
  const count = countAt(track, head);
  const until = Math.max(count, Math.min(steps.length, WINDOW));
  const first = Math.max(0, until - WINDOW);
  const shown = steps.slice(first, count);
  const x = shown.map((_, at) => first + at + 1);
  const bars = (status, list, axis) => ({
    type: 'bar',
    name: word(`status.${status}`),
    meta: status,
    x,
    y: shown.map((step) => countOf(step[list], status)),
    yaxis: axis,
    marker: {
      color: colours[status],
      line: { width: 0 },
      pattern: { shape: HATCH[status] ?? '', fillmode: 'overlay', fgcolor: colours.paper, size: 5, solidity: 0.25 },
    },
    hovertemplate: '%{y}',
  });
  const data = [
    ...KEPT.filter((status) => steps.some((step) => countOf(step.emitted, status))).map((status) =>
      bars(status, 'emitted', 'y'),
    ),
    ...WASTED.filter((status) => steps.some((step) => countOf(step.nodes, status))).map((status) =>
      bars(status, 'nodes', 'y2'),
    ),
  ];
  const wasted = data.some((trace) => trace.yaxis === 'y2');
  const highest = Math.max(1, ...steps.map((step) => step.emitted.length));
  const deepest = Math.max(1, ...steps.map((step) => step.nodes.length - countOf(step.nodes, 'accepted')));
  const base = frame(colours);
  return {
    data,
    layout: {
      ...base,
      barmode: 'stack',
      bargap: 0.15,
      hovermode: 'x unified',
      xaxis: {
        ...base.xaxis,
        title: { text: word('step') },
        range: [first + 0.4, Math.max(8, until) + 0.6],
        anchor: wasted ? 'y2' : 'y',
        dtick: tickEvery(until - first),
      },
      yaxis: {
        ...base.yaxis,
        title: { text: word('kept') },
        domain: [wasted ? 0.44 : 0, 1],
        range: [0, highest + 0.3],
        dtick: tickEvery(highest),
      },
      ...(wasted && {
        yaxis2: {
          ...base.yaxis,
          title: { text: word('wasted') },
          domain: [0, 0.38],
          range: [deepest * 1.05, 0],
          dtick: tickEvery(deepest),
        },
      }),
    },
  };
}

// Tokens of every lane against the seconds that the lane itself has used.
export function pace(log, head, colours) {
  const tracks = log.lanes.map((_, lane) => trackOf(log, lane));
  const data = log.lanes.map(({ title }, lane) => {
    const totals = tracks[lane]?.totals.slice(0, countAt(tracks[lane], head)) ?? [];
    return {
      type: 'scatter',
      mode: 'lines',
      name: title,
      meta: lane,
      x: [0, ...totals.map((total) => total.seconds)],
      y: [0, ...totals.map((total) => total.emitted)],
      line: { color: colours.lanes[lane], dash: DASHES[lane], width: 2.5, shape: 'hv' },
      hovertemplate: '%{y} tokens, %{x:.2f} s',
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
  };
}

const tickEvery = (length) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find((every) => length / every <= 12) ?? 1000;

function frame(colours) {
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
    height: 260,
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

const REST = 200; // ms between two drawings, at least
const SHARE = 4; // drawing may take one part in SHARE + 1 of the page's time

// Draws the latest picture offered whenever that is cheap enough, and at once when it is told to settle.
export class Gate {
  constructor(draw) {
    Object.assign(this, { draw, latest: null, urgent: false, busy: false, timer: 0, ready: 0 });
  }

  offer(picture) {
    this.latest = picture;
    if (!this.busy) this.arm();
  }

  settle(picture) {
    this.urgent = true;
    this.offer(picture);
  }

  arm() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), this.urgent ? 0 : Math.max(0, this.ready - performance.now()));
  }

  async run() {
    const picture = this.latest;
    Object.assign(this, { latest: null, urgent: false, busy: true });
    const began = performance.now();
    await this.draw(picture);
    const now = performance.now();
    this.ready = now + Math.min(1000, Math.max(REST, SHARE * (now - began)));
    this.busy = false;
    if (this.latest) this.arm();
  }
}
