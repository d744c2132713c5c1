// The lessons: a list of them, and one at a time beside the stage, which shows its recorded run at the step that is told.
//
// A lesson is open while the visitor is in the room of lessons. `?lesson=NAME&step=N` opens one.

import { chip, h } from './dom.js';
import { language } from './languages.js';
import { fileMessage } from './log.js';
import { word } from './words.js';

const TYPING = 'input:not([type=range]), textarea, select, [contenteditable]';

// `props`: the lessons of every language with their numbers filled in, and the address of the folder of their traces.
export function mount(element, props) {
  const box = element.querySelector('.lessons');
  const lessons = props.lessons[language];
  const traces = new Map();
  let place = asked(lessons, new URLSearchParams(window.location.search));
  let open = false;

  const tell = (detail) => window.dispatchEvent(new CustomEvent('stage', { detail }));
  const lessonAt = ({ lesson }) => lessons[lesson];

  // ---- moving ------------------------------------------------------------------------------------------------------

  function enter(room) {
    const was = open;
    open = room === 'lessons';
    document.body.classList.toggle('lesson', open);
    if (open) go(place);
    else if (was) {
      tell('leave');
      remember(null);
    }
  }

  function go(where) {
    place = where;
    remember(place);
    box.replaceChildren(...(place ? lessonElements() : listElements()));
    if (place) box.scrollIntoView({ block: 'nearest' }); // the list is higher than a phone: its nearest edge is its end
    if (place) present(place);
    else if (open) inRoom('lessons');
  }

  function walk(steps) {
    if (!place) return;
    const step = place.step + steps;
    const next = place.lesson + Math.sign(steps);
    if (step >= 0 && step < lessonAt(place).steps.length) go({ ...place, step });
    else if (steps > 0) go(next < lessons.length ? { lesson: next, step: 0 } : null);
  }

  // A step that asks for a prediction keeps all but its first paragraph until the stage has shown what happened.
  function ask(step) {
    box.classList.toggle('asking', step.predict);
  }

  // Put the step's run on the stage. A slow answer to an earlier step is dropped.
  async function present(where) {
    const step = lessonAt(where).steps[where.step];
    ask(step);
    try {
      const message = await load(step.recording);
      if (!open || where !== place) return;
      inRoom(step.room);
      tell({ teach: { ...step, message } });
    } catch (error) {
      box.append(h('p', { class: 'lesson-error' }, word('lesson.missing', { reason: error.message })));
    }
  }

  async function load(name) {
    if (!traces.has(name)) {
      const answer = await fetch(`${props.traces}/${name}.jsonl`);
      if (!answer.ok) throw new Error(`${answer.status}`);
      traces.set(name, fileMessage(await answer.text(), `lesson-${name}`));
    }
    return traces.get(name);
  }

  // The stage beside a lesson looks as it does in the room that the step names; the header stays in "Lessons".
  function inRoom(room) {
    document.body.dataset.room = room === 'step' ? 'step' : 'lessons';
  }

  function remember(where) {
    const url = new URL(window.location);
    url.searchParams.delete('lesson');
    url.searchParams.delete('step');
    if (where) {
      url.searchParams.set('lesson', lessonAt(where).id);
      url.searchParams.set('step', where.step + 1);
    }
    window.history.replaceState(null, '', url);
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  const listElements = () => [
    h('h2', {}, word('lesson.all')),
    h(
      'ol',
      { class: 'lesson-list' },
      lessons.map(({ title, summary }, lesson) =>
        h(
          'li',
          {},
          h(
            'button',
            { type: 'button', onclick: () => go({ lesson, step: 0 }) },
            h('b', {}, title),
            h('span', {}, summary),
          ),
        ),
      ),
    ),
  ];

  function lessonElements() {
    const lesson = lessonAt(place);
    const step = lesson.steps[place.step];
    const last = place.step === lesson.steps.length - 1;
    const following = lessons[place.lesson + 1];
    return [
      h('button', { type: 'button', class: 'lesson-back', onclick: () => go(null) }, `← ${word('lesson.all')}`),
      h('h2', {}, lesson.title),
      h(
        'ol',
        { class: 'lesson-steps', 'aria-label': word('lesson.steps') },
        lesson.steps.map((_, at) =>
          h(
            'li',
            {},
            h('button', {
              type: 'button',
              'aria-label': word('lesson.place', { n: String(at + 1), total: lesson.steps.length }),
              'aria-current': at === place.step ? 'step' : 'false',
              onclick: () => go({ ...place, step: at }),
            }),
          ),
        ),
      ),
      h(
        'div',
        { class: 'lesson-text' },
        step.text.map((parts) => h('p', {}, parts.map(drawPart))),
      ),
      h(
        'div',
        { class: 'lesson-claims' },
        h('h3', {}, word('lesson.claims')),
        h('ul', {}, step.claims.map(claimElement)),
      ),
      h(
        'div',
        { class: 'lesson-walk' },
        h(
          'button',
          { type: 'button', 'data-action': 'back', disabled: place.step === 0, onclick: () => walk(-1) },
          word('lesson.back'),
        ),
        h(
          'button',
          { type: 'button', class: 'lesson-next', 'data-action': 'next', onclick: () => walk(1) },
          last
            ? following
              ? word('lesson.following', { title: following.title })
              : word('lesson.all')
            : word('lesson.next'),
        ),
      ),
      h('p', { class: 'lesson-keys' }, word('lesson.keys')),
    ];
  }

  window.addEventListener('revealed', () => box.classList.remove('asking'));
  window.addEventListener('room', ({ detail }) => enter(detail));
  document.addEventListener('keydown', (event) => {
    if (!open || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(TYPING)) return;
    const steps = { PageDown: 1, n: 1, PageUp: -1, b: -1 }[event.key];
    if (!steps || !place) return;
    walk(steps);
    event.preventDefault();
  });
  if (document.body.dataset.room === 'lessons') enter('lessons');
  else box.replaceChildren(...listElements());
}

// The place that an address names: a lesson and a step of it, or null.
export function asked(lessons, query) {
  const lesson = lessons.findIndex(({ id }) => id === query.get('lesson'));
  if (lesson < 0) return null;
  const step = Number(query.get('step') ?? 1) - 1;
  const last = lessons[lesson].steps.length - 1;
  return { lesson, step: Number.isInteger(step) ? Math.max(0, Math.min(step, last)) : 0 };
}

const drawPart = (part) => (part.token === undefined ? emphasised(part) : chip(part.token, part.status));

// *Stressed* words.
const emphasised = (text) =>
  h(
    'span',
    {},
    text.split('*').map((piece, at) => (at % 2 ? h('em', {}, piece) : piece)),
  );

const claimElement = ({ words, shown, holds }) =>
  h(
    'li',
    { class: holds ? 'holds' : 'fails' },
    h('span', { 'aria-hidden': 'true' }, holds ? '✓' : '✗'),
    h('span', {}, `${words}${holds ? '' : ` (${word('lesson.fails')})`}: `, h('code', {}, shown)),
  );
