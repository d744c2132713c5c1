// The room that says which method to use: a short form, and the server's answer with its reasons.

import { h, spell } from './dom.js';
import { phrase } from './phrases.js';
import { complaint } from './room.js';
import { filled, number, word } from './words.js';

export function mount(element, props, watch, server, trigger) {
  const room = element.querySelector('.advise');
  const $ = (name) => room.querySelector(`[data-part=${name}]`);
  spell(element);
  const chosen = (name) => room.querySelector(`input[name=${name}]:checked`).value;
  const size = (name) => ($(name).value === '' ? null : Number($(name).value));
  let asked = false;

  function ask() {
    const wrong = complaint($('target'), $('draft'), $('batch'));
    $('notice').hidden = !wrong;
    $('notice').textContent = wrong;
    if (wrong) return;
    asked = true;
    trigger('submit', {
      target: size('target'),
      draft: size('draft'),
      heads: $('heads').checked,
      may_train: $('train').checked,
      batch: size('batch'),
      gpu: chosen('machine') === 'gpu',
      repeats: $('repeats').checked,
      throughput: chosen('goal') === 'throughput',
    });
  }
  $('question').addEventListener('submit', (event) => {
    event.preventDefault();
    ask();
  });
  const use = ({ method, settings }) => trigger('apply', { method, settings });

  watch('value', () => {
    if (!props.value) return;
    const state = JSON.parse(props.value);
    $('notice').hidden = !state.notice;
    $('notice').textContent = phrase(state.notice ?? '');
    if (state.entered) document.querySelector('.rooms [data-room=race]').click();
    if (!state.advice) return;
    $('answer').hidden = $('methods').hidden = false;
    $('answer').replaceChildren(...answer(state, use));
    $('methods').replaceChildren(...methods(state));
  });
  // What was measured meanwhile belongs into the answer.
  const entered = () => asked && document.body.dataset.room === 'advise' && ask();
  window.addEventListener('room', entered);
}

// The methods to try, best first, each with its settings and the reasons; `use` takes one into the race form.
export function answer({ advice, measured_on: where }, use) {
  return [
    h('h2', {}, word('advise.answer', { method: phrase(advice[0].title) })),
    where ? h('p', {}, word('advise.measuredOn', { models: where })) : h('p', {}, word('advise.unmeasured')),
    ...advice.map((one, at) =>
      h(
        'div',
        { class: 'advice' },
        h('h3', {}, `${at + 1}. ${phrase(one.title)}`),
        h('p', {}, h('code', {}, settingsText(one.settings))),
        h('p', {}, word(`advise.uses.${one.uses}`)),
        h(
          'ul',
          {},
          one.reasons.map(({ text, values, evidence }) =>
            h(
              'li',
              {},
              ...filled(phrase(text), values),
              ' ',
              h('span', { class: 'evidence' }, word(`advise.evidence.${evidence}`)),
            ),
          ),
        ),
        h(
          'button',
          { type: 'button', class: at ? null : 'first', onclick: () => use(one) },
          word('advise.use', { method: phrase(one.title) }),
        ),
      ),
    ),
  ];
}

export const settingsText = (settings) =>
  Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ') || word('advise.noSettings');

// Measured values beside the published ranges.
export function methods({ table }) {
  const titles = ['method', 'measured', 'published', 'training', 'extra', 'loss'];
  const [low, high] = [0, 1];
  return [
    h('h2', {}, word('advise.methods')),
    h(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': word('advise.methods') },
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            titles.map((title) => h('th', { scope: 'col' }, word(`advise.column.${title}`))),
          ),
        ),
        h(
          'tbody',
          {},
          table.map((row) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, phrase(row.title)),
              h(
                'td',
                {},
                row.measured ? `${number(row.measured.speedup, 2)}× (${row.measured.lane})` : word('advise.notYet'),
              ),
              h('td', {}, `${number(row.published[low], 2)}× – ${number(row.published[high], 2)}×`),
              h('td', {}, phrase(row.training)),
              h('td', {}, phrase(row.extra)),
              h('td', {}, word(`advise.loss.${row.lossy ? 'typical' : 'none'}`)),
            ),
          ),
        ),
      ),
    ),
    h('p', { class: 'quiet' }, table.map((row) => `${phrase(row.title)}: ${row.source}.`).join(' ')),
  ];
}
