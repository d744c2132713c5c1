// The lane cards: for each lane its title, speed, figures, what is to be said of them, its text and its step strip.

import { chip, h } from './dom.js';
import { NO_TOTALS, ratios, throughput } from './figures.js';
import { countAt, pieceOf, trackOf } from './log.js';
import { phrase } from './phrases.js';
import { chance } from './sentence.js';
import { settingsNamed, settingsTold } from './settings.js';
import { places, speedup, why } from './speed.js';
import { drawStrip, stepAt, stripRows } from './strip.js';
import { drawTokens } from './tokens.js';
import { baselineOf, verdict } from './verdict.js';
import { number, percent, say, word } from './words.js';

const FIGURES = ['tokensPerSecond', 'tokensPerPass', 'accepted'];

// `choose(lane, step)` is called when the visitor picks a lane, or a step of it (-1: none).
export function makeLanes(box, log, choose) {
  box.dataset.count = log.lanes.length;
  const cards = log.lanes.map((lane, at) => makeCard(lane, at, choose));
  box.replaceChildren(...cards.map((card) => card.element));
  return function drawLanes({ log: now, head, lane, colours }) {
    const tracks = cards.map((_, at) => trackOf(now, at));
    const rows = stripRows(tracks);
    const finished = places(now, head);
    cards.forEach((card, at) => {
      card.sequence.textContent = batch(now.lanes[at].tracks, head);
      drawCard(card, tracks[at], head, at === lane, rows, colours);
      drawSpeed(card, speedup(now, head, at), finished[at], baselineOf(now, at) === at);
      drawVerdict(card, now, head, at);
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
    speed: h('span', { class: 'times' }),
    place: h('span', { class: 'place-note' }),
    badge: h('span', { class: 'verdict-badge' }),
    told: h('span', { class: 'verdict-told' }),
    why: h('p', { class: 'why' }),
    strip: h('canvas', { class: 'strip', role: 'img', title: word('stripTip') }),
    key: h('p', { class: 'strip-key' }),
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
      h('p', { class: 'speedup', title: word('help.speedup') }, card.speed, card.place),
      h(
        'span',
        { class: 'settings', title: [settingsNamed(lane.settings), ...Object.values(lane.models)].join(' · ') },
        settingsTold(lane.settings),
      ),
      card.sequence,
    ),
    lane.notices.map((notice) => h('p', { class: 'lane-notice' }, phrase(notice))),
    h(
      'dl',
      { class: 'figures' },
      FIGURES.map((name) => h('div', { title: word(`help.${name}`) }, h('dt', {}, word(name)), figures[name])),
    ),
    h('p', { class: 'verdict' }, card.badge, card.told),
    card.why,
    card.tokens,
    card.strip,
    card.key,
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
  card.key.textContent = word(track?.totals.at(-1).proposed > 0 ? 'stripKey.wasted' : 'stripKey');
  const totals = track?.totals[card.count - 1];
  const { tokensPerSecond, tokensPerPass, acceptanceRate } = totals ? ratios(totals) : {};
  card.figures.tokensPerSecond.textContent = digits(tokensPerSecond);
  card.figures.tokensPerPass.textContent = tokensPerPass == null ? '–' : number(tokensPerPass, 2);
  card.figures.accepted.textContent = acceptanceRate == null ? '–' : percent(acceptanceRate);
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

// The number that a race is about, and the place in which the lane finished.
function drawSpeed(card, speed, place, baseline) {
  const shown = speed === null ? null : Number(speed.toFixed(2));
  card.speed.textContent = shown === null ? '' : word('times', { x: number(shown, 2) });
  const told = shown !== null && !baseline ? [word(shown > 1 ? 'faster' : shown < 1 ? 'slower' : 'asFast')] : [];
  if (place !== null) told.push(word(`place.${Math.min(place, 4)}`));
  card.place.textContent = told.join(' · ');
  card.element.classList.toggle('ahead', shown > 1);
}

function drawVerdict(card, log, head, lane) {
  const found = verdict(log, head, lane);
  card.badge.parentElement.hidden = card.why.hidden = found === null;
  if (found === null) return;
  const { kind } = found;
  card.badge.className = `verdict-badge ${kind}`;
  card.badge.textContent = word(`verdict.${kind}`);
  card.badge.title = word(`verdict.${kind}.help`);
  const tracks = [lane, baselineOf(log, lane)].map((at) => trackOf(log, at));
  card.told.replaceChildren(...tellVerdict(found).map((part) => told(tracks, part)));
  const reason = why(log, head, lane);
  card.why.textContent = reason ? tellWhy(reason) : '';
}

// A token that only one of two lanes wrote has its label there.
const told = (tracks, part) =>
  part?.token === undefined
    ? part
    : chip(pieceOf(tracks.find((track) => track.pieces.has(part.token)) ?? tracks[0], part.token), 'plain');

// Beside the badge: how much was compared, or where the first difference is and what the target gave the two tokens.
export function tellVerdict({ kind, compared, at, whole, odds }) {
  if (kind === 'baseline' || kind === 'waiting') return [];
  if (at === null && kind !== 'same') return say('told.sameText');
  if (at === null) return say(whole ? 'told.same' : 'told.sameSoFar', { n: compared });
  if (!odds) return say(kind === 'law' ? 'told.law' : 'told.from', { at: at + 1 });
  const { our, their, tie } = odds;
  const known = our.p !== null && their.p !== null;
  const ended = our.token === null || their.token === null;
  const parts = ended
    ? say('told.ended', { at })
    : known
      ? say('told.parted', { at: at + 1, our, their, p: chance(our.p, 3), q: chance(their.p, 3) })
      : say('told.parted.silent', { at: at + 1, our, their });
  return tie === null ? parts : [...parts, ' ', word(tie ? 'told.tie' : 'told.bug')];
}

// One sentence on a lane's speed out of its own measurements.
export function tellWhy({
  key,
  shares,
  forward,
  theirForward,
  gain,
  base,
  cost,
  rows,
  overPrompt,
  together,
  ...counts
}) {
  const balance = gain && { gain: number(gain, 2), base: number(base, 2), cost: number(cost, cost < 9.95 ? 2 : 0) };
  return word(`why.${key}`, {
    ...counts,
    n: overPrompt,
    balance: balance && word('why.balance', balance),
    rows: rows && number(rows, 0),
    together: digits(together),
    ms: digits(1000 * forward),
    theirs: digits(1000 * theirForward),
    share: shares && Math.round(100 * (shares[key] ?? 0)),
  });
}

const digits = (value) => (value == null ? '–' : number(value, value >= 100 ? 0 : 1));
