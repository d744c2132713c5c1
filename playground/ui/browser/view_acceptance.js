// How much was accepted: how many tokens at a time, and how far ahead.

import { acceptedIn } from './figures.js';
import { frame, nothing, standing, tint } from './frame.js';
import { number, word } from './words.js';

// Plotly puts in the numbers.
const SHARE = word('view.shareTip', { share: '%{y:.0%}', accepted: '%{customdata[0]}', proposed: '%{customdata[1]}' });

const speculative = ({ track, count }) => (track?.steps ?? []).slice(0, count).filter(({ nodes }) => nodes.length);

// Number of steps by how many proposed tokens they accepted; index is the number accepted.
export function histogram(steps) {
  const counts = [];
  for (const step of steps) {
    const accepted = acceptedIn(step);
    counts[accepted] = (counts[accepted] ?? 0) + 1;
  }
  return Array.from(counts, (count) => count ?? 0);
}

// Per place ahead, from 1: how many steps proposed something there, and how many accepted it. A tree proposes several
// tokens for a place and accepts one at most.
export function byPosition(track, steps) {
  const places = [];
  for (const step of steps) {
    const depths = step.places.map((place) => track.shape.places[place].depth);
    const deepest = Math.max(...depths);
    const accepted = step.nodes.filter(({ status }) => status === 'accepted').length;
    for (let at = 0; at < deepest; at += 1) {
      places[at] ??= { proposed: 0, accepted: 0 };
      places[at].proposed += 1;
      if (at < accepted) places[at].accepted += 1;
    }
  }
  return places;
}

export function acceptedPerStep(log, lane, head, colours) {
  const now = standing(log, lane, head);
  const steps = speculative(now);
  if (!steps.length) return nothing(colours, word('view.noGuess'));
  const counts = histogram(steps);
  const deepest = Math.max(counts.length - 1, ...now.track.shape.places.map(({ depth }) => depth));
  const mean = counts.reduce((sum, count, accepted) => sum + count * accepted, 0) / steps.length;
  const base = frame(colours);
  return {
    data: [
      {
        type: 'bar',
        meta: 'histogram',
        x: counts.map((_, accepted) => accepted),
        y: counts,
        text: counts.map((count) => (count ? String(count) : '')),
        textposition: 'outside',
        textangle: 0,
        cliponaxis: false,
        textfont: { color: colours.muted },
        marker: {
          color: counts.map((_, accepted) => (accepted ? colours.accepted : colours.rejected)),
          pattern: {
            shape: counts.map((_, accepted) => (accepted ? '' : 'x')),
            fillmode: 'overlay',
            fgcolor: colours.paper,
            size: 5,
            solidity: 0.25,
          },
        },
        hovertemplate: word('view.stepsTip', { steps: '%{y}', accepted: '%{x}' }),
        showlegend: false,
      },
    ],
    layout: {
      ...base,
      bargap: 0.2,
      margin: { ...base.margin, t: 22 },
      xaxis: {
        ...base.xaxis,
        title: { text: word('view.acceptedAxis') },
        range: [-0.6, deepest + 0.6],
        dtick: deepest > 16 ? 4 : 1,
        zeroline: false,
        showgrid: false,
      },
      yaxis: { ...base.yaxis, title: { text: word('view.stepsAxis') }, rangemode: 'tozero' },
    },
    caption: word('view.histogram', { steps: steps.length, mean: number(mean, 2), length: number(1 + mean, 2) }),
  };
}

export function acceptanceByPosition(log, lane, head, colours) {
  const now = standing(log, lane, head);
  const steps = speculative(now);
  if (!steps.length) return nothing(colours, word('view.noGuess'));
  const places = byPosition(now.track, steps);
  const rate = (part, whole) => (whole ? part / whole : null);
  // Of the steps that got as far as to judge this place: the first always is, a later one if all before were right.
  const judged = places.map(({ proposed }, at) =>
    at ? steps.filter((step) => reaches(now.track, step, at)).length : proposed,
  );
  const base = frame(colours);
  const x = places.map((_, at) => at + 1);
  return {
    data: [
      {
        type: 'bar',
        name: word('view.ofProposed'),
        meta: 'of proposed',
        x,
        y: places.map(({ accepted, proposed }) => rate(accepted, proposed)),
        customdata: places.map(({ accepted, proposed }) => [accepted, proposed]),
        marker: { color: tint(colours.accepted, 0.7) },
        hovertemplate: SHARE,
      },
      {
        type: 'scatter',
        mode: 'lines+markers',
        name: word('view.ofJudged'),
        meta: 'of judged',
        x,
        y: places.map(({ accepted }, at) => rate(accepted, judged[at])),
        customdata: places.map(({ accepted }, at) => [accepted, judged[at]]),
        line: { color: colours.ink, width: 2, dash: 'dot' },
        marker: { symbol: 'diamond', size: 8, color: colours.ink },
        hovertemplate: SHARE,
      },
    ],
    layout: {
      ...base,
      bargap: 0.2,
      hovermode: 'x unified',
      xaxis: {
        ...base.xaxis,
        title: { text: word('view.depth') },
        range: [0.4, Math.max(4, places.length) + 0.6],
        dtick: places.length > 16 ? 4 : 1,
        showgrid: false,
      },
      yaxis: { ...base.yaxis, range: [0, 1.04], tickformat: '.0%' },
    },
    caption: word('view.byPosition', {
      list: places.map(({ accepted, proposed }, at) => `+${at + 1} ${accepted}/${proposed}`).join(', '),
    }),
  };
}

// Whether all of the first `at` places of a step were accepted, and it proposed something after them on that path.
function reaches(track, step, at) {
  const path = step.nodes.flatMap(({ status }, node) => (status === 'accepted' ? [node] : []));
  return path.length >= at && (path.length > at || step.nodes.some(({ parent }) => parent === path[at - 1]));
}
