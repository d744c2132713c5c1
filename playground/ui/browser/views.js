// The views of the focused lane: which there are for it, the tabs that choose one, and the drawing of what is visible.

import { h } from './dom.js';
import { isVeiled, standing } from './frame.js';
import { trackOf } from './log.js';
import { acceptanceByPosition, acceptedPerStep } from './view_acceptance.js';
import { batchRows } from './view_batch.js';
import { cacheStrip } from './view_cache.js';
import { costPerPass, costPerToken } from './view_cost.js';
import { hasBlock, jacobiTrajectory } from './view_jacobi.js';
import { maskMatrix } from './view_mask.js';
import { hasInner, nestedDraft } from './view_nested.js';
import { pace } from './view_pace.js';
import { ngramPool } from './view_pool.js';
import { timeline } from './view_timeline.js';
import { tokenTree } from './view_tree.js';
import { hasWindow, lookaheadWindow } from './view_window.js';
import { word } from './words.js';

const some = (test) => (log, lane) => trackOf(log, lane)?.steps.some(test) ?? false;
const proposes = some(({ nodes }) => nodes.length > 0);

// In the order of the tabs; the first that fits a lane is shown until the visitor chooses.
const VIEWS = [
  { id: 'batch', fits: (log, lane) => log.lanes[lane].tracks.length > 1, figures: { batch: batchRows } },
  { id: 'window', fits: some(hasWindow), figures: { window: lookaheadWindow, pool: ngramPool } },
  { id: 'jacobi', fits: some(hasBlock), figures: { jacobi: jacobiTrajectory } },
  { id: 'nested', fits: some(hasInner), figures: { nested: nestedDraft } },
  { id: 'tree', fits: proposes, figures: { 'token-tree': tokenTree, mask: maskMatrix } },
  { id: 'acceptance', fits: proposes, figures: { histogram: acceptedPerStep, positions: acceptanceByPosition } },
  { id: 'cost', fits: some(() => true), figures: { 'pass-cost': costPerPass, 'token-cost': costPerToken } },
  { id: 'cache', fits: some(({ rows }) => rows > 0), figures: { cache: cacheStrip } },
];
const ALWAYS = { timeline, pace };
// While a step's verdict is hidden, these show its proposals; all other figures stay at the step before.
const OF_PROPOSALS = new Set(['token-tree', 'mask', 'nested']);
const CONFIG = { displayModeBar: false };

// The views that a lane has data for.
export const viewsOf = (log, lane) => (log.lanes[lane] ? VIEWS.filter(({ fits }) => fits(log, lane)) : []);

// Fills `tabs` and `box` with the focused lane's views and `charts` with the figures of every run. `changed` is called
// when the visitor chooses another. `drawTabs` is cheap; `drawFigures` is not, and draws only what can be seen.
export function makeViews({ tabs, views: box, charts }, changed) {
  const places = Object.fromEntries(Object.keys(ALWAYS).map((name) => [name, place(name, 'panel')]));
  charts.replaceChildren(...Object.values(places).map(({ element }) => element));
  let wanted = null;
  let shown = null;
  let named = '';

  function drawTabs({ log, lane }) {
    const there = viewsOf(log, lane);
    shown = there.find(({ id }) => id === wanted) ?? there[0] ?? null;
    box.parentElement.hidden = !shown;
    const names = `${shown?.id} ${there.map(({ id }) => id)}`;
    if (names === named) return;
    named = names;
    const had = document.activeElement?.dataset.view;
    tabs.replaceChildren(...there.map((view) => tab(view, view === shown)));
    if (had) tabs.querySelector(`[data-view=${had}]`)?.focus({ preventScroll: true });
    for (const name of Object.keys(shown?.figures ?? {})) {
      if (!places[name]) box.append((places[name] = place(name, 'view')).element);
    }
    for (const { element } of Object.values(places)) {
      if (element.parentElement === box) element.hidden = !(element.dataset.figure in (shown?.figures ?? {}));
    }
  }

  const tab = ({ id }, chosen) =>
    h(
      'button',
      { type: 'button', 'data-view': id, 'aria-pressed': String(chosen), onclick: () => choose(id) },
      word(`view.tab.${id}`),
    );

  function choose(id) {
    wanted = id;
    changed();
  }

  async function drawFigures(plotly, { log, lane, head, colours }) {
    const { step } = standing(log, lane, head);
    const judged = step && isVeiled(step) ? head - 1 : head;
    for (const [name, figure] of Object.entries({ ...ALWAYS, ...shown?.figures })) {
      const { chart, said } = places[name];
      if (!chart.offsetParent) continue;
      const {
        data,
        layout,
        caption,
        scroll = 0,
      } = figure(log, lane, OF_PROPOSALS.has(name) ? head : judged, colours, chart.clientWidth);
      chart.style.height = `${layout.height}px`;
      const width = layout.width ?? chart.clientWidth;
      await plotly.react(chart, data, { ...layout, width, uirevision: log.run }, CONFIG);
      chart.setAttribute('aria-label', `${word(`view.title.${name}`)}. ${caption}`);
      said.textContent = caption;
      chart.tabIndex = width > chart.clientWidth ? 0 : -1;
      if (chart.dataset.head !== String(head)) chart.scrollLeft = scroll * chart.scrollWidth;
      chart.dataset.head = head;
      await breath();
    }
  }

  return { drawTabs, drawFigures, choose };
}

// Lets the page answer, and show a frame, between two figures.
const breath = () =>
  new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
  });

function place(name, kind) {
  const chart = h('div', { class: 'chart', 'data-part': name, role: 'img', 'aria-label': word(`view.title.${name}`) });
  const said = h('figcaption', { 'aria-hidden': 'true' });
  return {
    chart,
    said,
    element: h('figure', { class: kind, 'data-figure': name }, h('h2', {}, word(`view.title.${name}`)), chart, said),
  };
}
