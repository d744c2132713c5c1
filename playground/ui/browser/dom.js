// Small helpers to build elements. Text always goes in as text nodes: what a model writes is never parsed as HTML.

import { word } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== ''));
  return element;
}

// Puts words where markup names them: a text, or a label for those who do not see.
export function spell(element) {
  for (const spot of element.querySelectorAll('[data-word]')) spot.textContent = word(spot.dataset.word);
  for (const spot of element.querySelectorAll('[data-label]'))
    spot.setAttribute('aria-label', word(spot.dataset.label));
}

// Control characters that would not show, or would reorder the text around them (bidirectional overrides).
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;

// Text that shows what it holds: hidden control characters become their code point.
export const visible = (text) =>
  text.replace(HIDDEN, (char) => `‹${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);

const blanks = (run) => (run.length > 2 ? `␣×${run.length}` : '␣'.repeat(run.length));

// A token as a label of its own, where blanks must be seen too.
export const label = (piece) =>
  visible(piece)
    .replaceAll('\n', '↵')
    .replaceAll('\t', '⇥')
    .replace(/^ +| +$/g, blanks) || '∅';

// A token set into a sentence, marked by its status.
export const chip = (piece, status) => h('span', { class: `token ${status}` }, label(piece));
