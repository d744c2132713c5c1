// The room in which lanes are measured against each other. What is shown is a function of the server's last message.

import { h, spell } from './dom.js';
import { saveText } from './files.js';
import { Gate } from './gate.js';
import { positionsFigure, speedFigure, themed } from './measure_figures.js';
import { OVERALL, definitions, table } from './measure_table.js';
import { phrase } from './phrases.js';
import { complaint, palette } from './room.js';
import { panel } from './what_if.js';
import { percent, word } from './words.js';

const BUSY = ['loading', 'measuring', 'judging'];
const PLAIN = { displayModeBar: false, responsive: true };
const FORMS = { html: 'text/html', md: 'text/markdown', json: 'application/json' };

export function mount(element, props, watch, server, trigger) {
  const room = element.querySelector('.measure');
  const $ = (name) => room.querySelector(`[data-part=${name}]`);
  spell(element);
  const chosen = (name) => room.querySelector(`input[name=${name}]:checked`).value;
  const gate = new Gate(drawCharts);
  let focus = null;
  let state = {
    phase: 'idle',
    rows: [],
    baselines: [],
    facts: {},
    noise: '',
    sweeps: [],
    paused: null,
    order: null,
    cost: { phase: 'idle', told: [], figure: null },
    form: { models: [], lanes: [] },
  };
  const whatIf = panel($('what-if'), (asked) => server.expect(asked));
  $('limits').textContent = word('measure.limits', props.limits);
  $('rounds').max = props.limits.rounds;
  $('length').max = props.limits.tokens;

  async function start(afresh) {
    const wrong = complaint($('rounds'), $('limit'), $('length'));
    if (wrong) return complain(wrong);
    const file = chosen('questions') === 'file' ? $('file').files[0] : null;
    if (chosen('questions') === 'file' && !file) return complain(word('measure.noFile'));
    if (file && file.size > 1_000_000) return complain(word('measure.tooLarge'));
    if (chosen('lanes') === 'typed' && !$('typed').value.trim()) return complain(word('measure.noLanes'));
    trigger('submit', {
      lanes: chosen('lanes') === 'typed' ? $('typed').value : '',
      name: file?.name ?? '',
      text: file ? await file.text() : null,
      rounds: whole('rounds'),
      limit: $('limit').value === '' ? null : whole('limit'),
      length: whole('length'),
      reference: $('reference').checked,
      drop: $('drop').checked,
      afresh,
    });
  }
  const whole = (name) => ($(name).value === '' ? null : Number($(name).value));
  const complain = (notice) => show({ notice });
  $('order').addEventListener('submit', (event) => {
    event.preventDefault();
    start(false);
  });
  $('afresh').addEventListener('click', () => start(true));
  $('stop').addEventListener('click', () => {
    trigger('stop', {});
    show({ stopping: true, notice: '' });
  });
  $('cost').addEventListener('click', () => trigger('apply', {}));
  $('file').addEventListener('change', () => choose('questions', 'file'));
  $('typed').addEventListener('input', () => choose('lanes', 'typed'));
  const choose = (name, value) => (room.querySelector(`input[name=${name}][value=${value}]`).checked = true);
  $('reports').append(
    ...Object.keys(FORMS).map((form) =>
      h('button', { type: 'button', onclick: () => save(form) }, word(`measure.report.${form}`)),
    ),
  );

  async function save(form) {
    const { text, error } = await server.report(form);
    if (error) complain(error);
    else saveText(`benchmark.${form}`, FORMS[form], text);
  }

  const visible = () => document.body.dataset.room === 'measure';
  const busy = () => BUSY.includes(state.phase);
  const entered = () => {
    if (!visible()) return;
    if (!(busy() && state.mine)) trigger('tick', {});
    draw();
  };

  function draw() {
    const costs = state.cost.phase === 'measuring';
    $('start').textContent = word(state.paused && !busy() ? 'measure.resume' : 'measure.start');
    $('start').disabled = busy() || costs;
    $('stop').hidden = !(busy() || costs);
    state.stopping &&= (busy() || costs) && !state.notice;
    $('stop').disabled = state.stopping;
    $('stop').textContent = word(state.stopping ? 'room.stopping' : 'measure.stop');
    $('afresh').hidden = busy() || !state.paused;
    const wrong = state.notice || state.error || state.cost.error || state.form.error;
    $('notice').hidden = !wrong;
    $('notice').textContent = phrase(wrong || '');
    $('form').textContent = word('measure.form', {
      models: (state.form.models ?? []).join(' · '),
      lanes: (state.form.lanes ?? []).join(' · '),
    });
    $('now').textContent = sentence(state);
    $('progress').hidden = !busy();
    if (state.phase === 'measuring') $('progress').value = state.done / state.of;
    else $('progress').removeAttribute('value');
    $('facts').textContent = [...Object.values(state.facts), phrase(state.noise)].filter(Boolean).join(' · ');
    $('reports').hidden = state.phase !== 'done';
    drawTable();
    $('cost').disabled = busy() || costs;
    $('cost-now').textContent = costs
      ? word('cost.measuring', { target: state.cost.target, share: percent(state.cost.share ?? 0) })
      : state.cost.told.map(phrase).join(' ');
    if (visible()) gate[busy() ? 'offer' : 'settle'](state);
  }

  // Choosing a lane in the table asks what other settings of it would bring.
  function drawTable() {
    const rows = state.rows.filter(({ category }) => category === OVERALL);
    const base = rows.find(({ lane }) => lane === state.baselines[0]);
    const others = rows.filter((row) => row !== base && Object.keys(row.shares).length);
    if (!others.some(({ lane }) => lane === focus)) focus = others[0]?.lane ?? null;
    const pick = (lane) => {
      focus = lane;
      drawTable();
    };
    const held = $('table').querySelector('button:focus')?.textContent;
    $('table').replaceChildren(...(rows.length ? [table(rows, state.baselines, focus, pick)] : []));
    if (held) [...$('table').querySelectorAll('button')].find((one) => one.textContent === held)?.focus();
    $('definitions').hidden = !rows.length;
    if (!$('definitions').querySelector('dt'))
      $('definitions')
        .querySelector('dl')
        .append(...definitions());
    whatIf.show(focus ?? '', `${state.run} ${state.phase} ${state.cost.phase}`);
  }

  async function drawCharts(now) {
    if (!window.Plotly) return setTimeout(draw, 300); // the stage loads it
    const colours = palette(room);
    const spots = now.sweeps.map(() => h('div', { class: 'chart' }));
    $('sweeps').replaceChildren(
      ...now.sweeps.map(({ told }, at) => h('figure', {}, h('figcaption', {}, told.map(phrase).join(' ')), spots[at])),
    );
    for (const [spot, figure] of [
      [$('speed'), speedFigure(now.rows, now.baselines, colours)],
      [$('positions'), positionsFigure(now.rows, colours)],
      [$('curve'), now.cost.figure && themed(now.cost.figure, colours)],
      ...now.sweeps.map(({ figure }, at) => [spots[at], themed(figure, colours)]),
    ]) {
      spot.closest('figure').hidden = !figure;
      if (figure) await window.Plotly.react(spot, figure.data, figure.layout, PLAIN);
    }
    whatIf.draw(colours);
  }

  function show(changes) {
    state = { ...state, ...changes };
    draw();
  }
  // What was wrong with an act, and what the form holds, stay until the next message about them.
  watch('value', () => props.value && show(JSON.parse(props.value)));
  new MutationObserver(entered).observe(document.body, { attributes: true, attributeFilter: ['data-room', 'class'] });
  draw();
  entered();
}

// What the benchmark does now, in a sentence.
export function sentence({ phase, order, done, of, round, left, out_of_time: late }) {
  if (phase === 'paused' && late) return word('measure.outOfTime');
  if (phase !== 'measuring') return word(`measure.${phase}`, { target: order?.target ?? '' });
  const values = { target: order.target, round: round + 1, rounds: order.rounds, done, of };
  return `${word('measure.measuring', values)} ${left === null ? '' : word('measure.left', { time: duration(left) })}`;
}

export const duration = (seconds) =>
  seconds < 100 ? word('measure.seconds', { n: seconds }) : word('measure.minutes', { n: Math.round(seconds / 60) });
