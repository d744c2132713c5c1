// The focused lane's current step, close up: the tree of proposals, what happened in words, and what it cost.

import { chip, h } from './dom.js';
import { ownSeconds } from './figures.js';
import { countAt, pieceOf, trackOf } from './log.js';
import { tell } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { drawTree, writesNumbers } from './tree.js';
import { testOf } from './trials.js';
import { number, word } from './words.js';

const PHASES = ['prefill', 'draft', 'forward', 'acceptance', 'bookkeeping'];
const LEGEND = ['accepted', 'rejected', 'never-reached', 'corrected', 'bonus', 'plain'];

export function makeFocus(boxes, tip) {
  const entry = (status) =>
    h(
      'li',
      {},
      h('span', { class: `token ${status}` }, `${GLYPHS[status]} ${word(`status.${status}`)}`.trim()),
      h('span', {}, word(`meaning.${status}`)),
    );
  const unknown = entry('unknown');
  boxes.legend.replaceChildren(...LEGEND.map(entry), unknown);

  return function drawFocus({ log, head, lane, quiet }) {
    const track = trackOf(log, lane);
    const count = countAt(track, head);
    const step = track?.steps[count - 1];
    unknown.hidden = !log.lanes.some(({ lossless }) => lossless === 'unknown');
    boxes.place.textContent = step
      ? `${log.lanes[lane].title} · ${word('place', { n: count, total: track.steps.length })}`
      : '';
    boxes.story.setAttribute('aria-live', quiet ? 'polite' : 'off');
    if (!step) {
      boxes.story.replaceChildren(h('p', {}, log.run === null ? word('empty') : word('story.start')));
      boxes.cost.replaceChildren();
      boxes.tree.replaceChildren();
      boxes.rule.textContent = '';
      return;
    }
    drawTree(boxes.tree, track, count, tip);
    boxes.rule.textContent = ruleOf(step, writesNumbers(track));
    boxes.story.replaceChildren(
      ...tell(step).map((parts) =>
        h(
          'p',
          {},
          parts.map((part) => told(track, part)),
        ),
      ),
    );
    boxes.cost.replaceChildren(...cost(step));
  };
}

// How the guesses of a step were judged, and what the numbers at them are. Nothing where none was judged.
function ruleOf({ nodes }, written) {
  const judged = nodes.filter((node) => testOf(node) !== 'none');
  if (!judged.length) return '';
  const known = (name) => judged.some((node) => node[name] !== null);
  const numbers = written && known('p') && word(known('q') ? 'rule.pq' : 'rule.p');
  return [numbers, word(`rule.${testOf(judged[0])}`)].filter(Boolean).join(' ');
}

const told = (track, part) =>
  part?.token === undefined ? String(part) : chip(pieceOf(track, part.token), part.status);

function cost(step) {
  if (!step.rows) return []; // a server's step: what it cost is not told
  const whole = ownSeconds(step.seconds);
  const used = PHASES.filter((phase) => step.seconds[phase] > 0);
  const share = (phase) => ((100 * step.seconds[phase]) / whole).toFixed(2);
  const ms = (seconds) => number(1000 * seconds, seconds < 0.01 ? 2 : 1);
  const told = [
    word('cost', {
      ms: ms(whole),
      rows: word('count', { n: step.rows }),
      discarded: step.cache_before + step.rows - step.cache_after,
      before: step.cache_before,
      after: step.cache_after,
    }),
  ];
  if (step.seconds.wait >= 0.001) told.push(word('waited', { ms: ms(step.seconds.wait) }));
  return [
    h(
      'div',
      {
        class: 'phases',
        role: 'img',
        'aria-label': used.map((phase) => `${word(`phase.${phase}`)} ${ms(step.seconds[phase])} ms`).join(', '),
      },
      used.map((phase) => h('i', { class: phase, style: `width:${share(phase)}%` })),
    ),
    h(
      'ul',
      { class: 'phase-names' },
      used
        .filter((phase) => share(phase) >= 1)
        .map((phase) => h('li', { class: phase }, `${word(`phase.${phase}`)} ${ms(step.seconds[phase])} ms`)),
    ),
    h('p', { title: word('cost.help') }, told.join(' · ')),
  ];
}
