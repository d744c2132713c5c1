// Proposals step by step: what entered the text and what was thrown away.

import { NO_TOTALS } from './figures.js';
import { HATCH, frame, tickEvery } from './frame.js';
import { countAt, trackOf } from './log.js';
import { word } from './words.js';

const KEPT = ['accepted', 'corrected', 'bonus', 'plain', 'unknown'];
const WASTED = ['rejected', 'never-reached'];

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
        dtick: tickEvery(2 * highest),
      },
      ...(wasted && {
        yaxis2: {
          ...base.yaxis,
          title: { text: word('wasted') },
          domain: [0, 0.38],
          range: [deepest * 1.05, 0],
          dtick: tickEvery(3 * deepest),
        },
      }),
    },
    caption: word('view.timeline', { n: count, ...(track?.totals[count - 1] ?? NO_TOTALS) }),
  };
}
