// One step of one lane, large: what was guessed, how each guess was judged, what the target and the draft had said, and
// which rows of the cache stayed.

import { bars, heading, judged, told } from './close_up.js';
import { textBefore } from './context.js';
import { h, label } from './dom.js';
import { countAt, pieceOf, trackOf } from './log.js';
import { placesOf } from './places.js';
import { lost, tell } from './sentence.js';
import { cacheRows, isVeiled, trialsOf } from './trials.js';
import { word } from './words.js';

const CONTEXT = 160; // characters of the text before the step

// `choose(lane)` is called when the visitor picks a lane.
export function makeOneStep(box, choose) {
  const part = (name, ...attributes) => h('div', { class: name, ...Object.assign({}, ...attributes) });
  const parts = {
    lanes: part('lane-picker', { role: 'group', 'aria-label': word('one.lanes') }),
    place: h('p', { class: 'one-place' }),
    intro: h('p', { class: 'intro' }),
    context: h('p', { class: 'context', dir: 'auto' }),
    story: part('story big-story'),
    places: part('places', { role: 'group', 'aria-label': word('one.places') }),
    judged: part('judged'),
    bars: part('bars'),
    cache: part('cache-rows'),
  };
  const title = h('h2');
  box.replaceChildren(
    h('div', { class: 'one-head' }, parts.lanes, parts.place),
    h(
      'section',
      { class: 'panel' },
      h('h2', {}, word('one.title')),
      parts.intro,
      parts.context,
      parts.places,
      parts.story,
    ),
    h('section', { class: 'panel trial' }, title, parts.judged, parts.bars),
    h('section', { class: 'panel' }, h('h2', {}, word('one.cache'), ' ', h('small', {}, word('one.row'))), parts.cache),
  );
  let shown = null; // the step on screen, and the place that the visitor chose in it
  let picked = null;

  return function drawOneStep(now) {
    const { log, head, lane, quiet, redraw } = now;
    const track = trackOf(log, lane);
    const count = countAt(track, head);
    const step = track?.steps[count - 1];
    if (step !== shown) picked = null;
    shown = step;
    refill(parts.lanes, laneButtons(log, lane, choose));
    box.classList.toggle('no-step', !step);
    parts.story.setAttribute('aria-live', quiet ? 'polite' : 'off');
    if (!step) {
      parts.place.textContent = '';
      parts.context.textContent = '';
      parts.places.replaceChildren();
      parts.story.replaceChildren(h('p', {}, word(log.run === null ? 'empty' : 'story.start')));
      return;
    }
    // Where the guesses were no draws there is no residual to leave out: see proof.js.
    box.classList.toggle('draftless', step.detail.length > 0 && step.detail.every(({ q }) => !q.length));
    const trials = trialsOf(step);
    const chosen = trials[picked ?? trials.length - 1];
    const pick = (at) => {
      picked = at;
      redraw();
    };
    parts.place.textContent = word('place', { n: count, total: track.steps.length });
    parts.intro.textContent = word(step.nodes.length ? 'one.intro' : 'one.introPlain');
    parts.context.textContent = textBefore(log.lanes[lane], track, count, CONTEXT);
    refill(parts.places, placesOf(step, track, trials, chosen, pick));
    reveal(parts.places, trials.indexOf(chosen));
    parts.story.replaceChildren(
      ...tell(step).map((sentence) =>
        h(
          'p',
          {},
          sentence.map((piece) => told(track, piece)),
        ),
      ),
    );
    if (lost(step)) parts.story.append(h('p', { class: 'muted' }, word('one.rejected')));
    title.replaceChildren(...heading(step, track, chosen));
    parts.judged.replaceChildren(...judged(step, track, chosen));
    parts.bars.replaceChildren(...bars(step, track, chosen));
    parts.cache.replaceChildren(...cache(step, track));
  };
}

// New children for a row of buttons; the focus stays where it was in the row.
function refill(row, children) {
  const focused = [...row.children].indexOf(document.activeElement);
  row.replaceChildren(...children);
  row.children[focused]?.focus({ preventScroll: true });
}

// A narrow row shows the chosen place.
function reveal(row, at) {
  const { offsetLeft, offsetWidth } = row.children[at];
  row.scrollLeft = offsetLeft + offsetWidth / 2 - row.offsetLeft - row.clientWidth / 2;
}

function laneButtons(log, lane, choose) {
  return log.lanes.map(({ title }, at) =>
    h(
      'button',
      { type: 'button', class: `lane-${at + 1}`, 'aria-pressed': String(at === lane), onclick: () => choose(at) },
      h('span', { class: 'swatch' }),
      title,
    ),
  );
}

function cache(step, track) {
  if (!step.rows) return [h('p', { class: 'muted' }, word('one.noCache'))];
  if (isVeiled(step)) return [h('p', { class: 'muted' }, word('one.veiled'))];
  const { before: old, fed, nodes, side, after } = cacheRows(step);
  const row = (name, content, title) => h('span', { class: `row ${name}`, title }, content);
  const kept = nodes.filter(Boolean).length;
  return [
    h(
      'div',
      {
        class: 'rows',
        role: 'img',
        'aria-label': word('one.cacheLabel', { before: old, fed, kept, gone: nodes.length - kept + side, after }),
      },
      row('old', word('one.cached', { n: old }), word('one.cached.tip')),
      fed ? row('fed', word('one.fed', { n: fed }), word('one.fed.tip')) : null,
      nodes.map((stays, at) =>
        row(
          stays ? 'kept' : 'gone',
          label(pieceOf(track, step.nodes[at].token)),
          word(stays ? 'one.kept' : 'one.gone'),
        ),
      ),
      side ? row('gone side', word('one.side', { n: side }), word('one.gone')) : null,
    ),
    h(
      'p',
      {},
      word(kept ? 'one.cacheTold' : nodes.length ? 'one.cacheNone' : 'one.cachePlain', {
        n: kept,
        gone: nodes.length - kept + side,
        rows: step.rows,
        before: old,
        after,
      }),
    ),
  ];
}
