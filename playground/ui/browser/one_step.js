// One step of one lane, large: what was guessed, how each guess was judged, what the target and the draft had said, and
// which rows of the cache stayed.

import { chip, h, label, visible } from './dom.js';
import { countAt, pieceOf, trackOf } from './log.js';
import { lost, short, tell } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { barsOf, cacheRows, testOf, trialsOf, unjudged } from './trials.js';
import { say, word } from './words.js';

const CONTEXT = 160; // characters of the text before the step
const MOST_GUESSES = 3; // of one place, in the row of places

// `choose(lane)` is called when the visitor picks a lane.
export function makeOneStep(box, choose) {
  const part = (name, ...attributes) => h('div', { class: name, ...Object.assign({}, ...attributes) });
  const parts = {
    lanes: part('lane-picker', { role: 'group', 'aria-label': word('one.lanes') }),
    place: h('p', { class: 'one-place' }),
    intro: h('p', { class: 'intro' }),
    context: h('p', { class: 'context', dir: 'auto' }),
    story: part('story big-story', { 'aria-live': 'polite' }),
    places: part('places', { role: 'group', 'aria-label': word('one.places') }),
    judged: part('judged'),
    bars: part('bars'),
    cache: part('cache-rows'),
  };
  const title = h('h2');
  box.replaceChildren(
    h('div', { class: 'one-head' }, parts.lanes, parts.place),
    h(
      'section',
      { class: 'panel' },
      h('h2', {}, word('one.title')),
      parts.intro,
      parts.context,
      parts.places,
      parts.story,
    ),
    h('section', { class: 'panel trial' }, title, parts.judged, parts.bars),
    h('section', { class: 'panel' }, h('h2', {}, word('one.cache')), parts.cache),
  );
  let shown = null; // the step on screen, and the place that the visitor chose in it
  let picked = null;

  return function drawOneStep(now) {
    const { log, head, lane, redraw } = now;
    const track = trackOf(log, lane);
    const count = countAt(track, head);
    const step = track?.steps[count - 1];
    if (step !== shown) picked = null;
    shown = step;
    parts.lanes.replaceChildren(...laneButtons(log, lane, choose));
    box.classList.toggle('no-step', !step);
    if (!step) {
      parts.place.textContent = '';
      parts.context.textContent = '';
      parts.places.replaceChildren();
      parts.story.replaceChildren(h('p', {}, word(log.run === null ? 'empty' : 'story.start')));
      return;
    }
    const trials = trialsOf(step);
    const chosen = trials[picked ?? trials.length - 1];
    const pick = (at) => {
      picked = at;
      redraw();
    };
    parts.place.textContent = word('place', { n: count, total: track.steps.length });
    parts.intro.textContent = word(step.nodes.length ? 'one.intro' : 'one.introPlain');
    parts.context.textContent = before(log.lanes[lane], track, count);
    parts.places.replaceChildren(...placesOf(step, track, trials, chosen, pick));
    reveal(parts.places, trials.indexOf(chosen));
    parts.story.replaceChildren(
      ...tell(step).map((told) =>
        h(
          'p',
          {},
          told.map((piece) => text(track, piece)),
        ),
      ),
    );
    if (lost(step)) parts.story.append(h('p', { class: 'muted' }, word('one.rejected')));
    title.replaceChildren(...heading(step, track, chosen));
    parts.judged.replaceChildren(...judged(step, track, chosen));
    parts.bars.replaceChildren(...bars(step, track, chosen));
    parts.cache.replaceChildren(...cache(step, track));
  };
}

// A narrow row shows the chosen place.
function reveal(row, at) {
  const { offsetLeft, offsetWidth } = row.children[at];
  row.scrollLeft = offsetLeft + offsetWidth / 2 - row.offsetLeft - row.clientWidth / 2;
}

const text = (track, part) =>
  part?.token === undefined ? String(part) : chip(pieceOf(track, part.token), part.status);

function laneButtons(log, lane, choose) {
  return log.lanes.map(({ title }, at) =>
    h(
      'button',
      { type: 'button', class: `lane-${at + 1}`, 'aria-pressed': String(at === lane), onclick: () => choose(at) },
      h('span', { class: 'swatch' }),
      title,
    ),
  );
}

// The end of the text as it was when the step began.
function before({ prompt_pieces: prompt }, track, count) {
  let written = '';
  for (let at = count - 2; at >= 0 && written.length < CONTEXT; at -= 1) {
    written = track.steps[at].emitted.map((token) => token.text).join('') + written;
  }
  if (written.length < CONTEXT) written = prompt.join('') + written;
  return (written.length > CONTEXT ? '…' : '') + visible(written.slice(-CONTEXT)).replaceAll('\n', '↵');
}

// ---- the places, from left to right --------------------------------------------------------------------------------

function placesOf(step, track, trials, chosen, pick) {
  const columns = trials.map((trial, at) => {
    const status = trial.own ? trial.own.status : 'accepted';
    return h(
      'button',
      {
        type: 'button',
        class: `place-column ${status}`,
        'aria-pressed': String(trial === chosen),
        onclick: () => pick(at),
      },
      h('span', { class: 'ahead' }, word('ahead', { n: trial.depth })),
      guessCards(step, track, trial),
      trial.own && card(track, trial.own, [], word(`fate.${trial.own.status}`)),
    );
  });
  for (const [depth, nodes] of unjudged(step)) {
    if (depth <= trials.length) continue; // their place had its trial
    const [first] = nodes;
    const more = nodes.length > 1 ? h('span', { class: 'more' }, word('one.more', { n: nodes.length - 1 })) : null;
    columns.push(
      h(
        'div',
        { class: 'place-column never-reached' },
        h('span', { class: 'ahead' }, word('ahead', { n: depth })),
        card(track, step.nodes[first], [], word('fate.never-reached')),
        more,
      ),
    );
  }
  return columns;
}

function guessCards(step, track, { guesses, taken }) {
  const first = [...guesses].sort((one, other) => (other === taken) - (one === taken)).slice(0, MOST_GUESSES);
  const cards = first.map((at) => {
    const node = step.nodes[at];
    return card(track, node, [odds(node), testBar(node)], word(`fate.${node.status}`));
  });
  const left = guesses.length - first.length;
  return left ? [...cards, h('span', { class: 'more' }, word('one.moreGuesses', { n: left }))] : cards;
}

const card = (track, { token, status }, facts, fate) =>
  h(
    'span',
    { class: `card ${status}` },
    h('span', { class: `token ${status}` }, label(pieceOf(track, token))),
    facts,
    h('span', { class: 'fate' }, `${GLYPHS[status]} ${fate}`.trim()),
  );

function odds({ p, q }) {
  const known = [
    ['p', p],
    ['q', q],
  ].filter(([, value]) => value !== null);
  return known.length
    ? h(
        'span',
        { class: 'odds' },
        known.map(([name, value]) => h('span', {}, `${name} ${short(value)}`)),
      )
    : null;
}

// Where the draw fell: kept to the left of the threshold, rejected to the right. Under typical acceptance p is what has
// to lie beyond it.
function testBar(node) {
  const kind = testOf(node);
  if (kind !== 'ratio' && kind !== 'typical') return null;
  const [mark, name] = kind === 'ratio' ? [node.u, 'u'] : [node.p, 'p'];
  const whole = kind === 'ratio' ? 1 : Math.max(2 * node.threshold, node.p);
  const percent = (value) => `${((100 * value) / whole).toFixed(2)}%`;
  const said = word(`test.${kind}.label`, { mark: short(mark), threshold: short(node.threshold) });
  return h(
    'span',
    { class: `test-bar ${kind} ${node.status}`, role: 'img', 'aria-label': said, title: said },
    h('i', { class: 'zone', style: `width:${percent(node.threshold)}` }),
    h('i', { class: 'at', style: `left:${percent(mark)}` }, h('b', {}, name)),
  );
}

// ---- the chosen place ----------------------------------------------------------------------------------------------

function heading(step, track, trial) {
  const last = trial.at < 0 ? word('one.lastToken') : label(pieceOf(track, step.nodes[trial.at].token));
  return [word('one.trial', { n: trial.depth }), ' ', h('small', {}, word('one.after', { last }))];
}

function judged(step, track, trial) {
  const guesses = trial.guesses.map((at) => step.nodes[at]).filter((node) => testOf(node) !== 'none');
  if (!guesses.length) return [h('p', {}, word(step.nodes.length ? 'test.bonus' : 'test.plain'))];
  const kind = testOf(guesses[0]);
  if (kind === 'best' || kind === 'draw') return matched(track, trial, guesses, kind);
  const told = guesses.slice(0, MOST_GUESSES).map((node) => judgement(track, node));
  const left = guesses.length - told.length;
  if (left > 0) told.push(h('p', {}, word('one.moreGuesses', { n: left })));
  if (trial.said?.residual.length) told.push(h('p', { class: 'redraw' }, word('test.residual')));
  return told;
}

// The target named its own token and a guess had to be that.
function matched(track, { own }, guesses, kind) {
  const right = own ?? guesses.find((node) => node.status === 'accepted');
  const told = right
    ? say(`test.${kind}`, { own: right, u: short(guesses[0].u ?? 0) }).map((piece) => text(track, piece))
    : word('test.cut');
  const list = guesses.map((node) =>
    h('li', {}, chip(pieceOf(track, node.token), node.status), ` ${GLYPHS[node.status]}`),
  );
  return [
    h('p', {}, told),
    h('p', {}, word('test.guesses', { n: guesses.length })),
    h('ul', { class: 'guess-list' }, list),
  ];
}

function judgement(track, node) {
  const values = Object.fromEntries(
    ['p', 'q', 'u', 'threshold'].map((name) => [name, node[name] === null ? '?' : short(node[name])]),
  );
  const kind = testOf(node);
  const key = kind === 'ratio' && node.threshold === 1 ? 'sure' : `${kind}.${node.status}`;
  const fate = h('b', {}, `${GLYPHS[node.status]} ${word(`status.${node.status}`)}`);
  return h(
    'div',
    { class: 'judgement' },
    h('p', { class: 'guess' }, chip(pieceOf(track, node.token), node.status), ' ', fate),
    testScale(node),
    h('p', {}, word(`test.${key}`, values)),
  );
}

// The test bar, large, with its numbers.
function testScale(node) {
  const bar = testBar(node);
  if (!bar) return null;
  const kind = testOf(node);
  return h(
    'div',
    { class: 'test-scale' },
    bar,
    h('p', { class: 'scale-words' }, h('span', {}, word(`test.${kind}.low`)), h('span', {}, word(`test.${kind}.high`))),
  );
}

function bars(step, track, trial) {
  if (!trial.said) return [h('p', { class: 'muted' }, word('one.noDetail'))];
  const guesses = trial.guesses.map((at) => step.nodes[at]);
  const marked = new Map(guesses.slice(0, 5).map((node) => [node.token, node.status]));
  if (trial.own) marked.set(trial.own.token, trial.own.status);
  const { rows, rest, highest, least } = barsOf(trial.said, guesses, marked);
  const redrawn = trial.said.residual.length > 0;
  const laws = ['p', ...(trial.said.q.length ? ['q'] : []), ...(redrawn ? ['residual'] : [])];
  const cells = (values) =>
    laws.map((name) =>
      values[name] === null
        ? h('td', { class: name }, h('span', { class: 'value below' }, `< ${short(least[name])}`))
        : barCell(name, values[name], highest, redrawn && name === 'p' ? (values.q ?? least.q) : null),
    );
  return [
    h(
      'table',
      { class: `law-table laws-${laws.length}` },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', {}, word('one.token')),
          laws.map((name) => h('th', { scope: 'col', class: name }, word(`law.${name}`))),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) =>
          h(
            'tr',
            { class: row.mark ?? '' },
            h(
              'th',
              { scope: 'row' },
              h('span', { class: `token ${row.mark ?? ''}` }, label(pieceOf(track, row.token))),
            ),
            cells(row),
          ),
        ),
        h(
          'tr',
          { class: 'others' },
          h('th', { scope: 'row' }, word('one.others')),
          laws.map((name) => h('td', {}, h('span', { class: 'value' }, short(rest[name])))),
        ),
      ),
    ),
  ];
}

// A bar on the scale of `highest`. What the target gives beyond the draft (`above`) is set off: the residual.
function barCell(name, value, highest, above) {
  const width = (part) => `width:${(100 * Math.min(1, part / highest)).toFixed(2)}%`;
  const common = above === null ? value : Math.min(value, above);
  return h(
    'td',
    { class: name },
    h(
      'span',
      { class: 'bar' },
      h('i', { style: width(common) }),
      above !== null && value > common ? h('i', { class: 'excess', style: width(value - common) }) : null,
    ),
    h('span', { class: 'value' }, short(value)),
  );
}

// ---- the cache -----------------------------------------------------------------------------------------------------

function cache(step, track) {
  if (!step.rows) return [h('p', { class: 'muted' }, word('one.noCache'))];
  const { before: old, fed, nodes, side, after } = cacheRows(step);
  const row = (name, content, title) => h('span', { class: `row ${name}`, title }, content);
  const kept = nodes.filter(Boolean).length;
  return [
    h(
      'div',
      {
        class: 'rows',
        role: 'img',
        'aria-label': word('one.cacheLabel', { before: old, fed, kept, gone: nodes.length - kept + side, after }),
      },
      row('old', word('one.cached', { n: old }), word('one.cached.tip')),
      fed ? row('fed', word('one.fed', { n: fed }), word('one.fed.tip')) : null,
      nodes.map((stays, at) =>
        row(
          stays ? 'kept' : 'gone',
          label(pieceOf(track, step.nodes[at].token)),
          word(stays ? 'one.kept' : 'one.gone'),
        ),
      ),
      side ? row('gone side', word('one.side', { n: side }), word('one.gone')) : null,
    ),
    h(
      'p',
      {},
      word(kept ? 'one.cacheTold' : 'one.cacheNone', {
        n: kept,
        gone: nodes.length - kept + side,
        rows: step.rows,
        before: old,
        after,
      }),
    ),
  ];
}
