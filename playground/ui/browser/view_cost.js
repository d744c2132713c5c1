// Where the time goes: per pass of the focused lane, and per token of every lane.

import { escape, frame, nothing, stackedBySteps, standing } from './frame.js';
import { countAt, trackOf } from './log.js';
import { number, word } from './words.js';

export const PHASES = ['draft', 'forward', 'acceptance', 'bookkeeping'];
const STEPS = 100; // the latest steps before the playhead
const PATTERN = { draft: '/', forward: '', acceptance: '.', bookkeeping: 'x', prefill: '+', others: '-' };

const bars = (phase, colours, rest) => ({
  type: 'bar',
  name: word(`phase.${phase}`),
  meta: phase,
  marker: {
    color: colours.phases[phase],
    line: { width: 0 },
    pattern: { shape: PATTERN[phase], fillmode: 'overlay', fgcolor: colours.paper, size: 6, solidity: 0.2 },
  },
  ...rest,
});

// Milliseconds of each step by phase. Reading the prompt, which the first step carries, is told in the caption: it
// would press all others flat.
export function costPerPass(log, lane, head, colours) {
  const { track, count, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  const from = Math.max(0, count - STEPS);
  const shown = track.steps.slice(from, count);
  const used = PHASES.filter((phase) => shown.some(({ seconds }) => seconds[phase] > 0));
  const ms = ({ seconds }) => 1000 * used.reduce((sum, phase) => sum + seconds[phase], 0);
  const base = frame(colours);
  const mean = shown.reduce((sum, one) => sum + ms(one), 0) / shown.length;
  const { draft, forward } = step.seconds;
  return {
    data: used.map((phase) =>
      bars(phase, colours, {
        x: shown.map((_, at) => from + at + 1),
        y: shown.map(({ seconds }) => 1000 * seconds[phase]),
        hovertemplate: '%{y:.2f} ms',
        ...(!step.rows && { name: word('phase.arrival') }),
      }),
    ),
    layout: {
      ...stackedBySteps(base, from, count),
      yaxis: { ...base.yaxis, title: { text: word('view.ms') }, range: [0, 1.05 * Math.max(...shown.map(ms)) || 1] },
    },
    // What a server's step cost is not told, only when it came.
    caption: word(step.rows ? 'view.cost' : 'view.arrivals', {
      n: count,
      ms: number(ms(step), 1),
      draft: number(1000 * draft, 1),
      forward: number(1000 * forward, 1),
      mean: number(mean, 1),
      prompt: number(1000 * track.steps[0].seconds.prefill, 1),
    }),
  };
}

// Milliseconds per token of the text by phase, a bar per lane: what a method spends, and on what.
export function costPerToken(log, _, head, colours) {
  const spent = log.lanes.map((__, lane) => spentBy(trackOf(log, lane), head));
  if (!spent.some(Boolean)) return nothing(colours);
  const phases = [...PHASES, 'others'].filter((phase) => spent.some((one) => one?.[phase] > 0));
  const at = log.lanes.map((__, lane) => lane);
  const base = frame(colours, 110 + 36 * Math.max(3, log.lanes.length));
  const whole = (one) => (one ? phases.reduce((sum, phase) => sum + one[phase], 0) : 0);
  return {
    data: phases.map((phase) =>
      bars(phase, colours, {
        orientation: 'h',
        x: spent.map((one) => one?.[phase] ?? 0),
        y: at,
        hovertemplate: '%{x:.2f} ms',
      }),
    ),
    layout: {
      ...base,
      barmode: 'stack',
      bargap: 0.35,
      hovermode: 'y unified',
      xaxis: {
        ...base.xaxis,
        title: { text: word('view.msPerToken') },
        range: [0, 1.05 * Math.max(...spent.map(whole)) || 1],
      },
      yaxis: {
        ...base.yaxis,
        range: [log.lanes.length - 0.5, -0.5],
        tickvals: at,
        ticktext: log.lanes.map(({ title }) => escape(title)),
        showgrid: false,
      },
    },
    caption: log.lanes
      .map(({ title }, lane) => word('view.perToken', { title, ms: number(whole(spent[lane]), 1) }))
      .join(' · '),
  };
}

// Milliseconds per emitted token that a track spent on each phase, the prompt left out; undefined before the first.
function spentBy(track, head) {
  const steps = (track?.steps ?? []).slice(0, countAt(track, head));
  const tokens = steps.reduce((sum, { emitted }) => sum + emitted.length, 0);
  if (!tokens) return undefined;
  const share = (phase) => (1000 / tokens) * steps.reduce((sum, { seconds }) => sum + seconds[phase], 0);
  return Object.fromEntries([...PHASES, 'others'].map((phase) => [phase, share(phase)]));
}
