// The colours of the theme as a room has them, for Plotly.

import { DASHES } from './frame.js';

export function palette(room) {
  const style = getComputedStyle(room);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ...Object.fromEntries(['ink', 'muted', 'line', 'paper'].map((name) => [name, read(name)])),
    lanes: DASHES.map((_, at) => read(`lane-${at + 1}`)),
    font: style.fontFamily,
  };
}

// What the browser says of the first number that is none, or out of its bounds; '' where all are well.
export function complaint(...inputs) {
  const wrong = inputs.find(({ validity }) => !validity.valid);
  return wrong ? `${wrong.closest('label').querySelector('span').textContent}: ${wrong.validationMessage}` : '';
}
