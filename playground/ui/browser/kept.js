// The visitor's last run, kept in this tab while the page is loaded anew: Gradio does that when a lost server is back.

import { fileMessage, traceLines } from './log.js';
import { word } from './words.js';

export const KEPT = 'last-run'; // its id on the stage, and its key in the tab's storage

export function keep(log) {
  if (!log.order.length || !(log.live || log.run === KEPT)) return;
  try {
    sessionStorage.setItem(KEPT, traceLines(log).join('\n'));
  } catch (error) {
    if (error.name !== 'QuotaExceededError') throw error; // a run too long to keep: then there is none
    sessionStorage.removeItem(KEPT);
  }
}

// The message that brings it back; null if there is none, or the visitor came to the page some other way.
export function kept() {
  const lines = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (lines === null || performance.getEntriesByType('navigation')[0]?.type !== 'reload') return null;
  return { ...fileMessage(lines, KEPT), notice: { kind: 'done', text: word('restored') } };
}
