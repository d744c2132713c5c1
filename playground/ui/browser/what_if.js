// What other settings of a lane would bring: a prediction of the server's speed model, from what was measured of it.

import { h } from './dom.js';
import { expectedFigure } from './measure_figures.js';
import { phrase } from './phrases.js';
import { number, word } from './words.js';

const RANGES = {
  alpha: { min: 0, max: 1, step: 0.01 },
  k: { min: 1, max: 16, step: 1 },
  nodes: { min: 1, max: 128, step: 1 },
  window: { min: 1, max: 30, step: 1 },
  guesses: { min: 1, max: 30, step: 1 },
  draft_cost: { min: 0, max: 2, step: 0.01 },
  batch: { min: 1, max: 64, step: 1 },
};
const KINDS = ['chain', 'tree', 'lookahead'];

// The panel in `box`; `ask` gives what the server expects.
export function panel(box, ask) {
  const kind = h(
    'select',
    { onchange: () => restart() },
    KINDS.map((one) => h('option', { value: one }, word(`whatIf.kind.${one}`))),
  );
  const sliders = h('div', { class: 'sliders' });
  const from = h('p', { class: 'quiet' });
  const told = h('p', { role: 'status' });
  const charts = ['across', 'by_batch'].map((name) =>
    h('figure', {}, h('figcaption', { 'data-part': `${name}-title` }), h('div', { class: 'chart', 'data-part': name })),
  );
  box.replaceChildren(
    h('h2', {}, word('whatIf.title')),
    h('p', {}, word('whatIf.intro')),
    h('div', { class: 'fields' }, h('label', {}, h('span', {}, word('whatIf.kind')), kind)),
    from,
    sliders,
    h('div', { class: 'go' }, h('button', { type: 'button', onclick: () => restart() }, word('whatIf.again'))),
    told,
    h('div', { class: 'pair' }, charts),
    h('p', { class: 'quiet' }, word('whatIf.sources')),
  );
  let lane = '';
  let standing = null; // what the numbers were taken from last
  let changed = {};
  let answer = null;
  let asked = 0;
  let colours = null;

  // Start anew where another lane is in focus, or more is known about it.
  function show(focus, known) {
    if (standing === `${focus} ${known}`) return;
    standing = `${focus} ${known}`;
    lane = focus;
    restart();
  }

  function restart() {
    changed = {};
    update();
  }

  async function update() {
    const turn = (asked += 1);
    const found = await ask({ lane, kind: kind.value, changed });
    if (turn !== asked) return; // a later question is on its way
    if (found.error) return void (told.textContent = phrase(found.error));
    answer = found;
    kind.value = found.kind;
    kind.disabled = found.start !== 'nothing';
    from.textContent = word(`whatIf.start.${found.start}`, { lane });
    drawSliders();
    told.textContent = prediction(found, Object.keys(changed).length > 0);
    draw(colours);
  }

  // Sliders stay where they are while they are dragged: only another kind of guessing needs others.
  function drawSliders() {
    const names = Object.keys(answer.values);
    if ([...sliders.children].map(({ dataset }) => dataset.name).join() !== names.join())
      sliders.replaceChildren(...names.map(slider));
    for (const label of sliders.children) {
      const value = answer.values[label.dataset.name];
      const input = label.querySelector('input');
      if (input !== document.activeElement) input.value = value;
      label.querySelector('output').textContent = number(value, RANGES[label.dataset.name].step < 1 ? 2 : 0);
    }
  }

  function slider(name) {
    const input = h('input', { type: 'range', ...RANGES[name] });
    input.addEventListener('input', () => {
      changed[name] = Number(input.value);
      update();
    });
    const help = word(`whatIf.help.${name}`);
    return h(
      'label',
      { 'data-name': name, title: help },
      h('span', {}, word(`whatIf.${name}`)),
      input,
      h('output', {}),
    );
  }

  async function draw(now) {
    colours = now;
    if (!colours || !window.Plotly || !answer) return;
    const { values, name, across, by_batch: byBatch } = answer;
    for (const [part, points, by] of [
      ['across', across, name],
      ['by_batch', byBatch, 'batch'],
    ]) {
      const figure = expectedFigure(points, values[by], word(`whatIf.${by}`), colours);
      box.querySelector(`[data-part=${part}-title]`).textContent = word(`whatIf.by.${by}`);
      const spot = box.querySelector(`[data-part=${part}]`);
      await window.Plotly.react(spot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    }
  }

  return { show, draw };
}

// What is expected, in words; beside it what was measured, where nothing was changed.
export function prediction({ tokens, speedup, cost, seen }, changed) {
  const parts = [
    word('whatIf.expected', { times: number(speedup, 2), tokens: number(tokens, 2) }),
    word(`whatIf.cost.${cost}`),
  ];
  if (seen !== null) parts.push(word(changed ? 'whatIf.seenBefore' : 'whatIf.seen', { times: number(seen, 2) }));
  return parts.join(' ');
}
