// The visitor's last run, which outlives loading the page anew: after a server came back, or by a slip of the hand.

import { fileMessage, traceLines } from './log.js';
import { forget, recall, retain } from './memory.js';
import { word } from './words.js';

export const KEPT = 'last-run'; // its id on the stage, and its key in the tab's memory

export function keep(log) {
  if (log.order.length && (log.live || log.run === KEPT)) retain('sessionStorage', KEPT, traceLines(log).join('\n'));
}

// The messages that bring it back; null if there is none, or the visitor came to the page some other way.
export function kept() {
  const lines = recall('sessionStorage', KEPT);
  forget('sessionStorage', KEPT);
  if (lines === null || performance.getEntriesByType('navigation')[0]?.type !== 'reload') return null;
  return [fileMessage(lines, KEPT), { notice: { kind: 'done', text: word('restored') } }];
}
