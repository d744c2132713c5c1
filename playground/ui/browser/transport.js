// The bar with which the visitor moves the playhead, and the keys that do the same.

import { h } from './dom.js';
import { countAt, trackOf } from './log.js';
import { SPEEDS, atEnd, isLive, position, seek, toggle, walk } from './playhead.js';
import { number, word } from './words.js';

const ICONS = {
  first: 'M5 4v12M16 4L8 10l8 6z',
  back: 'M14 4L6 10l8 6z',
  play: 'M6 3.5L16 10L6 16.5z',
  pause: 'M6 4h3v12H6zM11.5 4h3v12h-3z',
  forward: 'M6 4l8 6-8 6z',
  last: 'M15 4v12M4 4l8 6-8 6z',
};

const icon = (name) =>
  `<svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;

// `page` is what the stage offers: get() -> { play, log, lane, speed }, move(playhead), setSpeed(n), showRejected(yes),
// focusLane(n), press(id), project(), and for prediction: predict() and loop() switch the two on or off, cast(accepted)
// votes, reveal() shows what is hidden and says whether anything was.
export function makeTransport(bar, page) {
  const actions = {
    first: () => page.move(seek(page.get().log, 0)),
    back: () => step(page, -1),
    play: () => page.reveal() || page.move(toggle(page.get().play, page.get().log)),
    forward: () => page.reveal() || step(page, 1),
    last: () => page.move(atEnd),
  };
  const buttons = {};
  for (const name of Object.keys(actions)) {
    buttons[name] = h('button', { type: 'button', class: 'icon', 'data-action': name, onclick: actions[name] });
    face(buttons[name], name);
  }
  const scrub = h('input', { type: 'range', class: 'scrub', min: 0, max: 0, value: 0, 'aria-label': word('scrub') });
  scrub.addEventListener('input', () => page.move(seek(page.get().log, Number(scrub.value))));
  const place = h('output', { class: 'place' });
  const speed = h(
    'select',
    { class: 'speed', 'aria-label': word('speed') },
    SPEEDS.map((n) => h('option', { value: n }, word('perSecond', { n }))),
  );
  speed.addEventListener('change', () => page.setSpeed(Number(speed.value)));
  const follow = h(
    'button',
    { type: 'button', class: 'follow', 'data-action': 'follow', onclick: () => page.move(atEnd) },
    word('follow'),
  );
  const rejected = h(
    'button',
    { type: 'button', class: 'rejected-toggle', 'aria-pressed': 'true', title: word('showRejected') },
    h('span', { class: 'token rejected' }, word('status.rejected')),
  );
  rejected.addEventListener('click', () => {
    const shown = rejected.getAttribute('aria-pressed') !== 'true';
    rejected.setAttribute('aria-pressed', shown);
    page.showRejected(shown);
  });
  const [predict, loop] = ['predict', 'loop'].map((name) =>
    h(
      'button',
      { type: 'button', class: 'toggle', 'data-action': name, title: word(`help.${name}`), onclick: page[name] },
      word(name),
    ),
  );
  bar.append(
    h('div', { class: 'buttons' }, Object.values(buttons)),
    scrub,
    place,
    speed,
    predict,
    loop,
    rejected,
    follow,
  );
  document.addEventListener('keydown', (event) => onKey(event, page, actions));

  return function drawTransport({ play, log, lane, speed: chosen, ...modes }) {
    const head = position(play, log);
    const track = trackOf(log, lane);
    const count = countAt(track, head);
    face(buttons.play, play.playing || (play.head === null && isLive(log)) ? 'pause' : 'play');
    scrub.max = log.order.length;
    scrub.value = head;
    speed.value = chosen;
    const seconds = track?.totals[count - 1]?.seconds ?? 0;
    place.textContent = track
      ? `${word('place.lane', { lane: lane + 1, n: count, total: track.steps.length })} · ${word('time', { seconds: number(seconds, 2) })}`
      : '';
    scrub.setAttribute('aria-valuetext', place.textContent);
    predict.setAttribute('aria-pressed', modes.predict);
    loop.setAttribute('aria-pressed', modes.loop);
    follow.classList.toggle('on', play.head === null && isLive(log));
    follow.hidden = !isLive(log);
    for (const button of [...Object.values(buttons), scrub, speed, predict, loop]) button.disabled = !log.order.length;
  };
}

const step = (page, steps) => {
  const { play, log, lane } = page.get();
  page.move(walk(play, log, lane, steps));
};

function face(button, name) {
  if (button.dataset.face === name) return;
  button.dataset.face = name;
  button.innerHTML = icon(name);
  button.title = word(name);
  button.setAttribute('aria-label', word(name));
}

const ELSEWHERE = ['train', 'measure', 'advise']; // rooms without the stage: its keys are not theirs
const TYPING = 'input:not([type=range]), textarea, select, [contenteditable]';

function onKey(event, page, actions) {
  const target = event.target instanceof Element ? event.target : null;
  if (ELSEWHERE.includes(document.body.dataset.room)) return;
  if (target?.closest('dialog')) return; // has keys of its own
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || target?.closest(TYPING)) return;
  if (event.key === ' ' && target?.closest('button, a, summary, [role=button]')) return;
  const stride = event.shiftKey ? 10 : 1;
  const keys = {
    ' ': actions.play,
    ArrowLeft: () => step(page, -stride),
    ArrowRight: () => page.reveal() || step(page, stride),
    Home: actions.first,
    End: actions.last,
    l: actions.last,
    r: () => page.press('run'),
    Escape: () => page.press('stop'),
    p: page.project,
    g: page.predict,
    o: page.loop,
    a: () => page.cast(true),
    x: () => page.cast(false),
  };
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[1-4]$/.test(key)) page.focusLane(Number(key) - 1);
  else if (keys[key]) keys[key]();
  else return;
  event.preventDefault();
}
