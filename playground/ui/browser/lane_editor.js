// The form in which the visitor chooses the lanes. Every control is made from a method's declared settings.

import { h, svg } from './dom.js';
import { phrase } from './phrases.js';
import { translateForm } from './translate.js';
import { word } from './words.js';

const CONTROLS = 'select, button, input';

const icon = (d) =>
  svg('svg', { viewBox: '0 0 20 20', width: 16, height: 16, 'aria-hidden': 'true' }, svg('path', { d }));

export function mount(element, props, watch) {
  const box = element.querySelector('.lane-editor');
  const methods = new Map(props.methods.map((method) => [method.id, method]));
  const defaults = (id) =>
    Object.fromEntries(methods.get(id).settings.map((setting) => [setting.name, setting.default]));
  const copy = () => props.value.map(({ method, settings }) => ({ method, settings: { ...settings } }));
  let own = false;

  // Only a change of the lanes' number or methods rebuilds the form; typing into a setting leaves it alone.
  function change(edit, rebuild = true) {
    const lanes = copy();
    edit(lanes);
    own = true;
    props.value = lanes;
    if (rebuild) draw();
  }

  function draw() {
    const lanes = props.value;
    const held = placeOf(document.activeElement);
    box.replaceChildren(
      ...lanes.map((lane, at) => laneElement(lane, at, lanes.length)),
      h(
        'button',
        {
          type: 'button',
          class: 'add-lane',
          disabled: lanes.length >= props.most,
          onclick: () => change((all) => all.push(nextLane(all))),
        },
        lanes.length < props.most ? word('lanes.add') : word('lanes.most', { most: props.most }),
      ),
    );
    if (held) focusOn(held);
  }

  // Where the focus is, [lane, control]: the form is built anew, and who works it by keys goes on from there.
  function placeOf(element) {
    const lane = [...box.children].findIndex((part) => part.contains(element));
    return lane < 0 ? null : [lane, [...box.children[lane].querySelectorAll(CONTROLS)].indexOf(element)];
  }

  function focusOn([lane, control]) {
    const part = box.children[lane];
    const controls = [...part.querySelectorAll(CONTROLS)];
    const there = controls[control] ?? controls[0] ?? part; // the button that adds a lane is a part of its own
    (there.disabled ? controls[0] : there).focus({ preventScroll: true });
  }

  // A lane that is added runs a method not yet in the race, if there is one.
  function nextLane(lanes) {
    const used = new Set(lanes.map((lane) => lane.method));
    const method = [...methods.keys()].find((id) => !used.has(id)) ?? lanes[0].method;
    return { method, settings: defaults(method) };
  }

  function laneElement({ method, settings }, at, total) {
    const pick = h(
      'select',
      { class: 'method', 'aria-label': word('lanes.method', { n: String(at + 1) }) },
      [...methods.values()].map(({ id, title }) => h('option', { value: id, selected: id === method }, phrase(title))),
    );
    pick.addEventListener('change', () =>
      change((lanes) => {
        lanes[at] = { method: pick.value, settings: defaults(pick.value) };
      }),
    );
    const declared = methods.get(method);
    const setTo = (name) => (value) =>
      change((lanes) => {
        lanes[at].settings[name] = value;
      }, false);
    return h(
      'fieldset',
      { class: `lane-form lane-${at + 1}` },
      h('legend', {}, word('lanes.lane', { n: String(at + 1) })),
      h(
        'div',
        { class: 'lane-head' },
        h('span', { class: 'swatch' }),
        pick,
        h(
          'button',
          {
            type: 'button',
            class: 'icon',
            title: word('lanes.again'),
            'aria-label': word('lanes.duplicate', { n: String(at + 1) }),
            disabled: total >= props.most,
            onclick: () => change((lanes) => lanes.splice(at + 1, 0, { method, settings: { ...lanes[at].settings } })),
          },
          icon('M7 7h9v9H7zM4 13V4h9'),
        ),
        h(
          'button',
          {
            type: 'button',
            class: 'icon',
            title: word('lanes.remove'),
            'aria-label': word('lanes.removeLane', { n: String(at + 1) }),
            disabled: total <= 1,
            onclick: () => change((lanes) => lanes.splice(at, 1)),
          },
          icon('M5 5l10 10M15 5L5 15'),
        ),
      ),
      h('p', { class: 'summary' }, phrase(declared.summary)),
      h(
        'div',
        { class: 'settings' },
        declared.settings.map((setting) =>
          control(setting, settings[setting.name] ?? setting.default, setTo(setting.name)),
        ),
      ),
    );
  }

  watch('value', () => {
    if (!own) draw();
    own = false;
  });
  draw();
  translateForm();
}

// The control of one declared setting; `set` is called with what the visitor enters.
export function control(setting, value, set) {
  const input = INPUTS[setting.kind](setting, value, set);
  input.setAttribute('name', setting.name);
  return h(
    'label',
    { title: phrase(setting.help), class: setting.kind },
    h('span', {}, phrase(setting.name.replaceAll('_', ' '))),
    input,
  );
}

const number =
  (step) =>
  ({ minimum, maximum }, value, set) => {
    const input = h('input', { type: 'number', step, min: minimum, max: maximum, value });
    input.addEventListener('input', () => set(input.value === '' ? '' : Number(input.value)));
    return input;
  };

const INPUTS = {
  int: number(1),
  float: number('any'),
  bool(setting, value, set) {
    const input = h('input', { type: 'checkbox' });
    input.checked = value;
    input.addEventListener('change', () => set(input.checked));
    return input;
  },
  choice({ choices }, value, set) {
    const input = h(
      'select',
      {},
      choices.map((choice) => h('option', { value: choice, selected: choice === value }, phrase(choice))),
    );
    input.addEventListener('change', () => set(input.value));
    return input;
  },
  text(setting, value, set) {
    const input = h('input', { type: 'text', value, spellcheck: 'false' });
    input.addEventListener('input', () => set(input.value));
    return input;
  },
};
