// The page's header: the rooms, the language, light or dark, which the browser remembers, and the list of keys.
//
// A room is a way to look at the page: stylesheets show and hide by `body[data-room]`, and nothing is ever unmounted.

import { h, spell } from './dom.js';
import { LANGUAGES, change, language } from './languages.js';
import { recall, retain } from './memory.js';

const WORKSHOPS = ['train', 'measure']; // they work for longer than a GPU is lent

export function mount(element, props) {
  spell(element);
  document.documentElement.lang = language;
  const $ = (name) => element.querySelector(`[data-part=${name}]`);
  if (props.lent) {
    $('lent').hidden = false;
    for (const room of WORKSHOPS) $('rooms').querySelector(`[data-room=${room}]`).remove();
  }
  const buttons = [...$('rooms').children];
  const rooms = buttons.map((button) => button.dataset.room);
  const enter = (room) => {
    document.body.dataset.room = room;
    for (const button of buttons) button.setAttribute('aria-current', button.dataset.room === room ? 'page' : 'false');
    window.dispatchEvent(new CustomEvent('room', { detail: room }));
  };
  for (const button of buttons) button.addEventListener('click', () => enter(button.dataset.room));
  const query = new URLSearchParams(window.location.search);
  const asked = query.has('lesson') ? 'lessons' : query.get('room');
  enter(rooms.includes(asked) ? asked : 'race');

  const languages = Object.entries(LANGUAGES);
  $('language').append(...languages.map(([id, name]) => h('option', { value: id, lang: id }, name)));
  $('language').value = language;
  $('language').addEventListener('change', () => change($('language').value));

  const forced = new URLSearchParams(window.location.search).get('__theme');
  const kept = recall('localStorage', 'theme');
  if (!forced && kept) document.body.classList.toggle('dark', kept === 'dark');
  $('theme').addEventListener('click', () => {
    retain('localStorage', 'theme', document.body.classList.toggle('dark') ? 'dark' : 'light');
  });
  $('keys').addEventListener('click', () => $('dialog').showModal());
}
