// The lane cards: for each lane its title, three figures, its text and its step strip.

import { h } from './dom.js';
import { NO_TOTALS, ratios, throughput } from './figures.js';
import { countAt, trackOf } from './log.js';
import { drawStrip, stepAt, stripRows } from './strip.js';
import { drawTokens } from './tokens.js';
import { word } from './words.js';

const FIGURES = ['tokensPerSecond', 'tokensPerPass', 'accepted'];

// `choose(lane, step)` is called when the visitor picks a lane, or a step of it (-1: none).
export function makeLanes(box, log, choose) {
  box.dataset.count = log.lanes.length;
  const cards = log.lanes.map((lane, at) => makeCard(lane, at, choose));
  box.replaceChildren(...cards.map((card) => card.element));
  return function drawLanes({ log: now, head, lane, colours }) {
    const tracks = cards.map((_, at) => trackOf(now, at));
    const rows = stripRows(tracks);
    cards.forEach((card, at) => {
      card.sequence.textContent = batch(now.lanes[at].tracks, head);
      drawCard(card, tracks[at], head, at === lane, rows, colours);
    });
  };
}

function makeCard(lane, at, choose) {
  const figures = Object.fromEntries(FIGURES.map((name) => [name, h('dd', {}, '–')]));
  const card = {
    lane,
    figures,
    tokens: h('div', {
      class: 'tokens',
      dir: 'auto',
      tabindex: 0,
      role: 'region',
      'aria-label': word('laneLabel', { n: at + 1, title: lane.title }),
    }),
    sequence: h('span', { class: 'settings' }),
    strip: h('canvas', { class: 'strip', role: 'img', title: word('stripTip') }),
    count: 0,
  };
  card.element = h(
    'article',
    { class: `lane lane-${at + 1}` },
    h(
      'header',
      {},
      h(
        'button',
        { type: 'button', class: 'lane-title', title: `${at + 1}`, onclick: () => choose(at, -1) },
        h('span', { class: 'swatch' }),
        lane.title,
      ),
      h('span', { class: 'settings', title: Object.values(lane.models).join(' · ') }, describe(lane.settings)),
      card.sequence,
    ),
    lane.notices.map((notice) => h('p', { class: 'lane-notice' }, notice)),
    h(
      'dl',
      { class: 'figures' },
      FIGURES.map((name) => h('div', { title: word(`help.${name}`) }, h('dt', {}, word(name)), figures[name])),
    ),
    card.tokens,
    card.strip,
  );
  card.tokens.addEventListener('click', (event) => {
    const step = event.target.closest('.step');
    if (step && window.getSelection().isCollapsed) choose(at, Number(step.dataset.step));
  });
  card.strip.addEventListener('click', (event) =>
    choose(at, stepAt(event.offsetX, card.count, card.strip.clientWidth)),
  );
  return card;
}

const describe = (settings) =>
  Object.entries(settings)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`)
    .join(' · ');

// A lane of several sequences shows the first, and says what they come to together.
function batch(tracks, head) {
  if (tracks.length < 2) return '';
  const totals = tracks.map((track) => track.totals[countAt(track, head) - 1] ?? NO_TOTALS);
  return word('sequence', { n: 1, total: tracks.length, together: digits(throughput(totals)) });
}

function drawCard(card, track, head, focused, rows, colours) {
  card.count = countAt(track, head);
  card.element.classList.toggle('focused', focused);
  card.element.setAttribute('aria-current', focused);
  drawTokens(card.tokens, track, card.count);
  drawStrip(card.strip, track, card.count, rows, colours);
  const totals = track?.totals[card.count - 1];
  const { tokensPerSecond, tokensPerPass, acceptanceRate } = totals ? ratios(totals) : {};
  card.figures.tokensPerSecond.textContent = digits(tokensPerSecond);
  card.figures.tokensPerPass.textContent = tokensPerPass?.toFixed(2) ?? '–';
  card.figures.accepted.textContent = acceptanceRate == null ? '–' : `${Math.round(100 * acceptanceRate)} %`;
  card.strip.setAttribute(
    'aria-label',
    word('stripLabel', {
      title: card.lane.title,
      n: card.count,
      total: track?.steps.length ?? 0,
      accepted: totals?.accepted ?? 0,
      proposed: totals?.proposed ?? 0,
    }),
  );
}

const digits = (value) => (value == null ? '–' : value >= 100 ? value.toFixed(0) : value.toFixed(1));
