// The room in which Medusa heads are trained. What is shown is a function of the server's last message.

import { h, spell } from './dom.js';
import { DASHES, frame, nothing } from './frame.js';
import { Gate } from './gate.js';
import { phrase } from './phrases.js';
import { complaint, palette } from './room.js';
import { number, percent, word } from './words.js';

const BUSY = ['loading', 'writing', 'learning', 'judging'];

export function mount(element, props, watch, server, trigger) {
  const room = element.querySelector('.train');
  const $ = (name) => room.querySelector(`[data-part=${name}]`);
  spell(element);
  const option = (value, text) => h('option', { value }, text);
  $('variant').append(...props.variants.map((name) => option(name, word(`train.variant.${name}`))));
  $('variant').value = 'own-vocabulary';
  $('heads').max = props.most_heads;
  const gate = new Gate(drawCharts);
  let stopping = false; // asked for, and not yet done: it may take as long as a text
  let state = { phase: 'idle', loss: [], checks: [], families: {}, paused: {}, trained: {}, order: null, result: null };

  const start = (afresh) => {
    state.notice = complaint($('heads'));
    if (state.notice) return draw();
    trigger('submit', {
      family: $('family').value,
      minutes: Number($('minutes').value),
      heads: Number($('heads').value),
      variant: $('variant').value,
      afresh,
    });
  };
  $('start').addEventListener('click', () => start(false));
  $('afresh').addEventListener('click', () => start(true));
  $('stop').addEventListener('click', () => {
    trigger('stop', {});
    stopping = true;
    state.notice = '';
    draw();
  });
  $('family').addEventListener('change', draw);
  const visible = () => document.body.dataset.room === 'train';
  const entered = () => {
    if (!visible()) return;
    if (!BUSY.includes(state.phase) || !state.mine) trigger('tick', {});
    draw();
  };

  // The families on this machine, which a fetch adds to.
  function listFamilies() {
    const ids = Object.keys(state.families);
    if (ids.join() === [...$('family').options].map(({ value }) => value).join()) return;
    const chosen = $('family').value || state.order?.family;
    $('family').replaceChildren(...ids.map((id) => option(id, phrase(state.families[id]))));
    if (ids.includes(chosen)) $('family').value = chosen;
  }

  function draw() {
    listFamilies();
    const busy = BUSY.includes(state.phase);
    const paused = state.paused[$('family').value];
    $('start').textContent = word(paused && !busy ? 'train.resume' : 'train.start');
    $('start').disabled = busy || !$('family').value;
    $('stop').hidden = !busy;
    stopping &&= busy && !state.notice;
    $('stop').disabled = stopping;
    $('stop').textContent = word(stopping ? 'room.stopping' : 'train.stop');
    $('afresh').hidden = busy || !paused;
    $('notice').hidden = !(state.notice || state.error);
    $('notice').textContent = state.notice || state.error || '';
    $('now').textContent = sentence(state);
    $('progress').hidden = !busy;
    if (state.of && state.phase !== 'judging') $('progress').value = state.done / state.of;
    else $('progress').removeAttribute('value');
    const heads = state.trained[$('family').value];
    $('result').hidden = !(state.result || heads);
    $('result').replaceChildren(...result(state, heads, () => trigger('apply', { family: $('family').value })));
    if (visible()) gate[busy ? 'offer' : 'settle'](state);
  }

  async function drawCharts(now) {
    if (!window.Plotly) return setTimeout(draw, 300); // the stage loads it
    const colours = palette(room);
    for (const [name, figure] of [
      ['loss', lossFigure(now, colours)],
      ['accuracy', accuracyFigure(now, colours)],
    ])
      await window.Plotly.react($(name), figure.data, figure.layout, { displayModeBar: false, responsive: true });
  }

  watch('value', () => {
    if (!props.value) return;
    // What was wrong with an act stays until the next one.
    state = { notice: state.notice, ...JSON.parse(props.value) };
    draw();
  });
  new MutationObserver(entered).observe(document.body, { attributes: true, attributeFilter: ['data-room', 'class'] });
  draw();
  entered();
}

// What the training does now, in a sentence.
export function sentence({ phase, done, of, seconds, order }) {
  if (phase === 'idle') return word('train.idle');
  const values = { done, of, n: of, seconds, family: order?.family ?? '' };
  return word(`train.${phase}`, values);
}

// Loss of the training step by step, and on held-out text.
export function lossFigure({ loss, checks }, colours) {
  if (!loss.length) return nothing(colours, '');
  const line = (points, name, extra) => ({
    type: 'scatter',
    name,
    x: points.map(([step]) => step),
    y: points.map(([, value]) => value),
    hovertemplate: '%{y:.3f}',
    ...extra,
  });
  return {
    data: [
      line(loss, word('train.seen'), { mode: 'lines', line: { color: colours.muted, width: 1 } }),
      line(checks, word('train.heldOut'), {
        mode: 'lines+markers',
        line: { color: colours.lanes[0], width: 2 },
        marker: { size: 6 },
      }),
    ],
    layout: axes(colours, word('step')),
  };
}

// How often each head's first guess was right on held-out text.
export function accuracyFigure({ checks }, colours) {
  if (!checks.length) return nothing(colours, '');
  const heads = checks[0].length - 2;
  const base = axes(colours, word('step'));
  return {
    data: Array.from({ length: heads }, (_, head) => ({
      type: 'scatter',
      mode: 'lines+markers',
      name: word('train.head', { head: head + 1 }),
      x: checks.map(([step]) => step),
      y: checks.map((check) => check[head + 2]),
      line: { color: colours.lanes[head], dash: DASHES[head], width: 2 },
      marker: { size: 5 },
      hovertemplate: '%{y:.1%}',
    })),
    layout: { ...base, yaxis: { ...base.yaxis, tickformat: '.0%', rangemode: 'tozero' } },
  };
}

function axes(colours, title) {
  const base = frame(colours, 240);
  return { ...base, hovermode: 'x unified', xaxis: { ...base.xaxis, title: { text: title }, rangemode: 'tozero' } };
}

// Accuracies, tree and trial of finished heads, and the button that takes heads into a race.
export function result({ result: made }, heads, use) {
  const parts = [h('h2', {}, word('train.result'))];
  if (made) {
    const rows = Object.entries(made.accuracy).flatMap(([kind, table]) =>
      table.map((tops, head) =>
        h(
          'tr',
          {},
          h('th', { scope: 'row' }, word(`train.kind.${kind}`, { head: head + 1 })),
          tops.map((top) => h('td', {}, percent(top, 1))),
        ),
      ),
    );
    const columns = [1, 3, 5, 10].map((top) => h('th', { scope: 'col' }, word('train.top', { top })));
    const { trial } = made;
    parts.push(
      h(
        'p',
        { class: 'train-verdict' },
        word('train.verdict', {
          pass: number(trial.tokens_per_pass, 2),
          length: number(trial.mean_acceptance_length, 2),
          times: number(trial.speedup, 2),
          prompts: trial.prompts,
          tokens: trial.tokens,
        }),
      ),
      h('p', {}, word('train.tree', { n: made.nodes, expected: number(made.expected, 2) })),
      h(
        'table',
        {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, word('train.guess')), columns)),
        h('tbody', {}, rows),
      ),
    );
  }
  if (heads) parts.push(h('button', { type: 'button', class: 'first', onclick: use }, word('train.use')));
  return parts;
}
