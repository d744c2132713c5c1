// The text of a track with every token marked by its fate. One element per step, so moving the playhead adds or removes
// elements at the end and leaves the rest alone.

import { h, label, visible } from './dom.js';
import { pieceOf } from './log.js';
import { lost } from './sentence.js';
import { word } from './words.js';

const SHOWN_STEPS = 1200;

// Draw the first `count` steps of `track` into `box`. `box.drawn` remembers the track, for when another run begins.
export function drawTokens(box, track, count) {
  const first = Math.max(0, count - SHOWN_STEPS);
  if (box.drawn !== track || first < Number(box.firstChild?.dataset.step ?? 0)) {
    box.replaceChildren();
    box.drawn = track;
  }
  while (box.firstChild && Number(box.firstChild.dataset.step) < first) box.firstChild.remove();
  while (box.lastChild && Number(box.lastChild.dataset.step) >= count) box.lastChild.remove();
  const fresh = document.createDocumentFragment();
  for (let at = box.lastChild ? Number(box.lastChild.dataset.step) + 1 : first; at < count; at += 1) {
    fresh.append(stepElement(track, at));
  }
  box.append(fresh);
  box.querySelector('.now')?.classList.remove('now');
  box.lastChild?.classList.add('now');
  box.scrollTop = box.scrollHeight;
}

function stepElement(track, at) {
  const step = track.steps[at];
  const wrong = lost(step);
  const parts = [];
  for (const token of step.emitted) {
    if (wrong && token.status !== 'accepted') parts.push(tokenNodes(at, pieceOf(track, wrong.token), wrong));
    parts.push(tokenNodes(at, token.text, token));
  }
  return h('span', { class: 'step', 'data-step': at }, parts.flat());
}

// A leading blank stays outside the mark: inside, it would leave a coloured stub where a line wraps.
function tokenNodes(at, text, { token, status }) {
  const title = word('tokenTip', { step: at + 1, status: word(`status.${status}`), token });
  if (!text) return [h('span', { class: `token part ${status}`, title: `${title} · ${word('textless')}` })];
  const blank = /^ (?=\S)/.test(text) ? ' ' : '';
  // What did not enter the text must not break its lines either.
  const shown = status === 'rejected' ? label(text.slice(blank.length)) : lineBreaks(text.slice(blank.length));
  const mark = h('span', { class: `token ${status}`, title }, shown);
  return blank ? [blank, mark] : [mark];
}

const lineBreaks = (text) =>
  visible(text)
    .split(/(?<=\n)/)
    .flatMap((line) => (line.endsWith('\n') ? [line.slice(0, -1), h('i', { class: 'newline' }, '↵'), '\n'] : [line]));
