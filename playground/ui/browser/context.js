// The text before a step.

import { visible } from './dom.js';

// The last `most` characters of prompt and output as they were when step `count` (from 1) of a track began.
export function textBefore({ prompt_pieces: prompt }, track, count, most) {
  let text = '';
  for (let at = count - 2; at >= 0 && text.length < most; at -= 1) {
    text = track.steps[at].emitted.map((token) => token.text).join('') + text;
  }
  if (text.length < most) text = prompt.join('') + text;
  return (text.length > most ? '…' : '') + visible(text.slice(-most)).replaceAll('\n', '↵');
}
