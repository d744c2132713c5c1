// The stage: takes in messages, keeps the log and the playhead, and draws. Everything on it follows from those two.

import { spell } from './dom.js';
import { savePage, saveTrace } from './files.js';
import { makeFocus } from './focus.js';
import { DASHES } from './frame.js';
import { Gate } from './gate.js';
import { KEPT, keep, kept } from './kept.js';
import { makeLanes } from './lanes.js';
import { emptyLog, receive, stop, trackOf } from './log.js';
import { makeOneStep } from './one_step.js';
import { atEnd, atStart, isLive, position, seek, tick, tickSeconds } from './playhead.js';
import { NO_VOTES, asked, canHide, veil, vote } from './predict.js';
import { makeQuiz } from './quiz.js';
import { drawRunLine, promptPieces } from './run_line.js';
import { STATUSES } from './statuses.js';
import { makeTip } from './tip.js';
import { makeTransport } from './transport.js';
import { PHASES } from './view_cost.js';
import { makeViews } from './views.js';
import { word } from './words.js';

const MOST_SILENCE = 5000; // milliseconds

export function mount(element, props, watch, server) {
  const stage = element.querySelector('.stage');
  const $ = (name) => stage.querySelector(`[data-part=${name}]`);
  const state = { log: emptyLog(), play: atEnd, speed: 2, chosen: null, predict: false, loop: false, veiled: false };
  let votes = NO_VOTES;
  let own = null; // the visitor's own run, while a lesson has the stage
  let left = false; // a run was stopped, and the server has not spoken of another since
  let silence = 0;
  const ran = () => (own ?? state).log;
  const gate = new Gate((picture) => views.drawFigures(plotly, picture));
  let plotly = null;
  let colours = palette(stage);
  let drawLanes = null;
  let timer = 0;
  let waiting = false;

  const proposes = (_, at) => trackOf(state.log, at)?.totals.at(-1).proposed > 0;
  const lane = () => state.chosen ?? Math.max(0, state.log.lanes.findIndex(proposes));
  // What is drawn: the state, and the log as far as the visitor may see it.
  const view = () => {
    const [at, head] = [lane(), position(state.play, state.log)];
    const log = state.veiled && canHide(state.log, at, head) ? veiledLog(state.log, at, head) : state.log;
    return { ...state, log, lane: at, head, colours };
  };
  const veiledLog = lately(veil);

  // ---- what changes the state --------------------------------------------------------------------------------------

  function take(message) {
    if (own) {
      own.log = receive(own.log, message);
      return;
    }
    const before = state.log;
    const { lanes } = before;
    state.log = receive(state.log, message);
    if (state.log !== before) opened();
    else if (state.log.lanes !== lanes) drawHeaders();
    changed();
  }

  function opened() {
    gate.rest(); // a run's first steps go before its figures
    state.chosen = null;
    drawHeaders();
    // The space bar belongs to the playhead now; on a focused button it would start another run.
    if (document.activeElement?.id === 'run') stage.focus({ preventScroll: true });
    const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    move(state.log.live || state.log.run === KEPT || calm ? atEnd : atStart);
  }

  // What the run's header says: the cards of its lanes, and the prompt.
  function drawHeaders() {
    drawLanes = makeLanes($('lanes'), state.log, choose);
    $('prompt').replaceChildren(...promptPieces(state.log.lanes[0]));
    window.dispatchEvent(new CustomEvent('focused'));
  }

  function move(play) {
    const before = position(state.play, state.log);
    const head = position(play, state.log);
    if (head !== before) votes = { ...votes, last: null };
    // Only what the visitor comes to for the first time is hidden, and it stops the playback.
    state.veiled = state.predict && play.head !== null && head > before && canHide(state.log, lane(), head);
    state.play = state.veiled ? seek(state.log, head) : play;
    if (state.play.playing) state.loop = false;
    schedule();
    changed();
  }

  function schedule() {
    clearTimeout(timer);
    if (state.loop) timer = setTimeout(() => show(!state.veiled), 1000 / state.speed);
    if (!state.play.playing) return;
    timer = setTimeout(
      () => move(tick(state.play, state.log)),
      1000 * tickSeconds(state.play, state.log, lane(), state.speed),
    );
  }

  // Hide or show the verdict of the step at hand.
  function show(hidden) {
    state.veiled = hidden && canHide(state.log, lane(), position(state.play, state.log));
    if (!state.veiled) window.dispatchEvent(new CustomEvent('revealed'));
    schedule();
    changed();
  }

  function reveal() {
    const { log, lane: at, head } = view();
    if (!state.veiled || state.loop || !canHide(log, at, head)) return false;
    votes = { ...votes, last: null };
    show(false);
    return true;
  }

  function cast(accepted) {
    const [at, head] = [lane(), position(state.play, state.log)];
    if (!state.veiled || state.loop) return;
    votes = vote(votes, asked(state.log, at, head), accepted);
    show(false);
  }

  // Predict and loop: playback gives way to them.
  function toggle(mode) {
    state[mode] = !state[mode];
    state.play = seek(state.log, position(state.play, state.log));
    if (mode === 'predict') votes = NO_VOTES;
    if (mode === 'predict' && state.predict) state.loop = false;
    show(state[mode]);
  }

  // A lesson puts a recorded run on the stage, at a step of a lane, and points at something there.
  function teach({ message, lane: at, head, predict, view: shown, point }) {
    own ??= { log: state.log, play: state.play, chosen: state.chosen };
    if (state.log.run !== message.run) {
      state.log = receive(emptyLog(), message);
      drawHeaders();
    }
    Object.assign(state, { chosen: at, loop: false, predict: false });
    move(seek(state.log, head));
    if (predict) show(true);
    requestAnimationFrame(() => {
      stage.querySelector(`[data-view="${shown}"]`)?.click();
      requestAnimationFrame(() => pointAt(point));
    });
  }

  function pointAt(selector) {
    stage.querySelector('.pointed')?.classList.remove('pointed');
    const found = selector ? stage.querySelector(selector) : null;
    found?.classList.add('pointed');
    // Where the words stand above the stage, scrolling there would take them away.
    if (window.matchMedia('(min-width: 1001px)').matches)
      found?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  }

  function leave() {
    if (!own) return;
    Object.assign(state, own, { loop: false });
    own = null;
    pointAt('');
    if (state.log.run !== null) drawHeaders();
    move(state.play);
  }

  function choose(at, step) {
    if (at >= state.log.lanes.length) return;
    state.chosen = at;
    window.dispatchEvent(new CustomEvent('focused'));
    if (step >= 0) move(seek(state.log, trackOf(state.log, at).at[step] + 1));
    else changed();
  }

  function changed() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  const tip = makeTip(stage);
  const parts = (...names) => Object.fromEntries(names.map((name) => [name, $(name)]));
  spell(element);
  const drawFocus = makeFocus(parts('place', 'tree', 'rule', 'legend', 'story', 'cost'), tip);
  const drawOneStep = makeOneStep($('one-step'), (at) => choose(at, -1));
  const views = makeViews(parts('tabs', 'views', 'charts'), changed);
  const drawTransport = makeTransport($('transport'), {
    get: view,
    move,
    setSpeed: (speed) => {
      state.speed = speed;
      move(state.play);
    },
    reveal,
    cast,
    predict: () => toggle('predict'),
    loop: () => toggle('loop'),
    showRejected: (yes) => stage.classList.toggle('no-rejected', !yes),
    focusLane: (at) => choose(at, -1),
    project: () => document.body.classList.toggle('projector'),
    press: (id) => document.getElementById(id)?.offsetParent && document.getElementById(id).click(),
  });

  const drawQuiz = makeQuiz($('quiz'), { cast, reveal });

  function draw() {
    waiting = false;
    const now = view();
    const hidden = now.log !== state.log;
    stage.classList.toggle('veiled', hidden);
    drawQuiz({ ...now, node: hidden && !now.loop ? asked(now.log, now.lane, now.head) : null, votes });
    const moving = now.play.playing || (now.play.head === null && isLive(now.log));
    stage.classList.toggle('empty', now.log.run === null);
    drawRunLine(parts('badge', 'title', 'made', 'facts', 'notice'), now.log);
    drawLanes?.(now);
    drawFocus({ ...now, quiet: !moving });
    const oneStep = document.body.dataset.room === 'step';
    if (oneStep) drawOneStep({ ...now, quiet: !moving, redraw: changed });
    drawTransport(now);
    views.drawTabs(now);
    tip.hide();
    document.body.classList.toggle('running', isUnderWay(now.log));
    // Plotly cannot draw into what is hidden; coming back into the room draws.
    if (plotly && now.log.run !== null && !oneStep) gate[moving ? 'offer' : 'settle'](now);
  }

  // Plotly comes after the first paint; what is on screen by then does not need it. A file that stands alone has it.
  function loadPlotly() {
    if (!props.plotly) {
      plotly = window.Plotly;
      changed();
      return;
    }
    const script = document.createElement('script');
    script.src = props.plotly;
    script.onload = () => {
      plotly = window.Plotly; // gr.Plot would replace the global by its own
      changed();
    };
    document.head.append(script);
  }

  // Until Gradio has heard that a run is stopped it passes over the next click on Run: the button says so. Of a run that
  // had ended by itself meanwhile it says nothing.
  function stopping(yes) {
    clearTimeout(silence);
    if (yes) silence = setTimeout(stopping, MOST_SILENCE, false);
    if (yes) left = true;
    document.body.classList.toggle('stopping', yes);
  }

  // ---- the outside -------------------------------------------------------------------------------------------------

  const commands = {
    save: () => state.log.order.length && saveTrace(state.log),
    export: async () => state.log.order.length && savePage(state.log, await server.player()),
    stop: () => {
      if (isUnderWay(ran())) stopping(true);
      stop(ran());
      changed();
    },
    leave,
    ask: () => take({ notice: { kind: 'progress', text: word('asked') } }),
    // Gradio tells of a run that was stopped as of one that failed, twice, and the next may have been asked for meanwhile.
    fail: () => {
      stopping(false);
      if (left || !isUnderWay(ran())) return;
      take({ notice: { kind: 'error', text: word('broke') } });
      stop(ran());
    },
  };
  window.addEventListener('stage', ({ detail }) => (detail.teach ? teach(detail.teach) : commands[detail]()));
  watch('value', () => {
    if (isUnderWay(ran())) left = false;
    if (props.value) take(JSON.parse(props.value));
  });
  const recolour = () => {
    colours = palette(stage);
    changed();
  };
  new MutationObserver(recolour).observe(document.body, { attributes: true, attributeFilter: ['class', 'data-room'] });
  new ResizeObserver(changed).observe(stage);
  stage.view = view; // for tests and the console
  const last = props.plotly ? kept() : null; // a file that stands alone has its own run
  const first = last ?? (props.value ? [JSON.parse(props.value)] : []);
  first.forEach(take);
  changed();
  window.addEventListener('pagehide', () => keep(ran()));
  requestAnimationFrame(() => setTimeout(loadPlotly));
}

// Whether the visitor waits for something: a run's steps, or what was asked for before there were any.
const isUnderWay = (log) => isLive(log) || log.notice?.kind === 'progress';

// `make`, which remembers its last answer and gives it again for the same arguments.
function lately(make) {
  let last = [];
  let answer;
  return (...given) => {
    if (last.length !== given.length || given.some((value, at) => value !== last[at])) answer = make(...given);
    last = given;
    return answer;
  };
}

// The theme's colours, for canvas and Plotly, which do not read stylesheets.
function palette(stage) {
  const style = getComputedStyle(stage);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ...Object.fromEntries(STATUSES.map((status) => [status, read(status)])),
    ...Object.fromEntries(['ink', 'muted', 'line', 'paper'].map((name) => [name, read(name)])),
    rejectedTint: read('rejected-tint'),
    phases: Object.fromEntries([...PHASES, 'others'].map((phase) => [phase, read(`phase-${phase}`)])),
    lanes: DASHES.map((_, at) => read(`lane-${at + 1}`)),
    font: style.fontFamily,
  };
}
