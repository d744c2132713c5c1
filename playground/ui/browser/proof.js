// "Prove it": asks the server for a thousand next tokens through the focused lane's method, at the place where the step
// on the stage began, and shows them beside what the target says.

import { textBefore } from './context.js';
import { h, label, spell } from './dom.js';
import { countAt, trackOf } from './log.js';
import { short } from './sentence.js';
import { percent, word } from './words.js';

const DRAWS = 1000;
const CONTEXT = 60; // characters that say where
const UNLIKELY = 0.001; // a p-value below it is taken for a difference

export function mount(element, props, watch, server, trigger) {
  const panel = element.querySelector('.proof');
  const $ = (name) => panel.querySelector(`[data-part=${name}]`);
  spell(element);
  document.querySelector('.stage [data-part=proof]')?.append(panel);
  let times = 0;
  let title = '';
  let where = '';

  $('draw').addEventListener('click', () => {
    const { log, lane, head } = document.querySelector('.stage').view();
    if (log.run === null) return;
    const first = 1 + DRAWS * times;
    times += 1;
    title = log.lanes[lane].title;
    where = textBefore(log.lanes[lane], trackOf(log, lane), countAt(trackOf(log, lane), head), CONTEXT);
    trigger('submit', {
      ...placeOf(log, lane, head),
      residual: !($('skip').checked && $('skip').offsetParent),
      first_seed: first,
    });
  });
  watch('value', () => {
    const message = props.value && JSON.parse(props.value);
    if (!message) return;
    $('draw').disabled = Boolean(message.progress) || message.draws < message.of;
    $('result').hidden = false;
    $('result').replaceChildren(...drawn(message, title, where));
  });
}

// Where the step at `head` of a lane began, as the server takes it: all tokens before it, and who went on from there.
export function placeOf(log, lane, head) {
  const { method, settings, models, sampling, dtype, prompt_ids: prompt } = log.lanes[lane];
  const track = trackOf(log, lane);
  const before = track?.totals[countAt(track, head) - 2]?.emitted ?? 0;
  const ids = [...prompt, ...(track?.output.slice(0, before) ?? [])];
  return { method, settings, models, sampling, dtype, prompt_ids: ids };
}

function drawn(message, title, where) {
  if (message.error) return [h('p', { class: 'proof-error', role: 'alert' }, message.error)];
  if (message.progress) return [h('p', {}, word('proof.progress'))];
  const { draws, of, tokens, others, p_value: chance } = message;
  const highest = Math.max(...tokens.flatMap(([, p, count]) => [p, count / draws]));
  const rows = tokens.map(([piece, p, count]) =>
    row(h('span', { class: 'token' }, label(piece)), p, count / draws, highest),
  );
  const rest = row(word('one.others'), others[0], others[1] / draws, null);
  return [
    h('p', { class: 'proof-where' }, word('proof.where', { title }), ' ', h('span', { class: 'where' }, where)),
    h(
      'p',
      { class: 'proof-verdict' },
      word('proof.count', { n: draws, of }),
      ' ',
      h('b', {}, word('proof.p', { p: chance < UNLIKELY ? '< 0.001' : `= ${short(chance)}` })),
    ),
    draws < of ? null : h('p', { class: chance < UNLIKELY ? 'differs' : 'fits', role: 'status' }, judgement(message)),
    h(
      'table',
      { class: 'proof-table' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ['one.token', 'proof.target', 'proof.drawn'].map((key) =>
            h('th', { scope: 'col', class: key.replace('.', '-') }, word(key)),
          ),
        ),
      ),
      h('tbody', {}, [...rows, rest]),
    ),
    message.greedy ? h('p', { class: 'muted' }, word('proof.temperature')) : null,
  ].filter(Boolean);
}

// What a finished count says. Exported for its tests.
export function judgement({ p_value: chance, promise, residual }) {
  if (chance >= UNLIKELY)
    return word(residual ? 'proof.fits' : 'proof.fitsAnyway', { share: Math.max(1, Math.round(100 * chance)) });
  if (!residual) return word('proof.noResidual');
  return word(promise === 'lossy' ? 'proof.lossy' : 'proof.bug');
}

function row(name, p, share, highest) {
  const bar = (kind, value) =>
    h(
      'td',
      { class: kind },
      highest ? h('span', { class: 'bar' }, h('i', { style: `width:${((100 * value) / highest).toFixed(2)}%` })) : null,
      h('span', { class: 'value' }, percent(value, 1)),
    );
  return h('tr', {}, h('th', { scope: 'row' }, name), bar('target', p), bar('drawn', share));
}
