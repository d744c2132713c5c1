// The controls that Gradio draws: their English texts give way to the visitor's language, also where they come later.

import { language } from './languages.js';
import { phrase } from './phrases.js';

const PARTS = ['controls', 'deploy']; // where Gradio draws; all else on the page has its words from words.js
const VERBATIM = 'pre, code, textarea, script, style';
const ATTRIBUTES = ['placeholder', 'aria-label', 'title'];
const CHOSEN = 'input[role=combobox]'; // a dropdown shows the label of what is chosen as its input's value

export function translateForm() {
  if (language === 'en') return;
  for (const id of PARTS) whenThere(id, follow);
}

function follow(part) {
  // What Gradio writes into an input is no change of the document; it comes with one, or with an act of the visitor.
  const soon = () => setTimeout(() => part.querySelectorAll(CHOSEN).forEach(turnChosen), 50);
  turn(part);
  soon();
  const changes = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver((records) => {
    for (const { target, addedNodes } of records) [target, ...addedNodes].forEach(turn);
    soon();
  }).observe(part, { ...changes, attributeFilter: ATTRIBUTES });
  for (const event of ['focusout', 'click']) part.addEventListener(event, soon);
}

function turn(node) {
  if (node.nodeType === Node.TEXT_NODE) turnText(node);
  if (node.nodeType !== Node.ELEMENT_NODE || node.closest(VERBATIM)) return;
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) turnText(walker.currentNode);
  for (const element of [node, ...node.querySelectorAll('*')]) turnAttributes(element);
}

function turnText(node) {
  const text = node.data.trim();
  if (!text || node.parentElement?.closest(VERBATIM)) return;
  const turned = phrase(text);
  if (turned !== text) node.data = node.data.replace(text, () => turned);
}

function turnAttributes(element) {
  for (const name of ATTRIBUTES) {
    const text = element.getAttribute(name);
    if (text && phrase(text) !== text) element.setAttribute(name, phrase(text));
  }
}

function turnChosen(input) {
  const turned = phrase(input.value);
  if (turned !== input.value && input !== document.activeElement) input.value = turned;
}

function whenThere(id, use) {
  const found = () => document.getElementById(id);
  if (found()) return use(found());
  const waiting = new MutationObserver(() => {
    if (!found()) return;
    waiting.disconnect();
    use(found());
  });
  waiting.observe(document.body, { subtree: true, childList: true });
}
