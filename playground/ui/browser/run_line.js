// The line above the lanes: which run this is, how it was made and how it stands; and what the page has to say.

import { h, visible } from './dom.js';
import { language } from './languages.js';
import { phrase } from './phrases.js';
import { word } from './words.js';

export function drawRunLine({ badge, facts, notice }, log) {
  badge.textContent = log.run === null ? '' : word(log.live ? 'live' : 'recorded');
  badge.className = `badge ${log.live ? 'live' : 'recorded'}`;
  facts.textContent = log.run === null ? '' : factsOf(log).filter(Boolean).join(' · ');
  notice.hidden = !log.notice;
  notice.className = `notice ${log.notice?.kind ?? ''}`;
  notice.textContent = phrase(log.notice?.text ?? '');
}

// Where and when a run was made, and how it stands.
function factsOf({ title, machine, recorded, lanes, live, end, lost }) {
  const date = new Date(recorded);
  const day = Number.isNaN(date.getTime()) ? recorded : date.toLocaleDateString(language, { dateStyle: 'long' });
  const local = lanes.filter(({ dtype }) => dtype !== 'unknown');
  const numbers = [...new Set(local.map(({ dtype, device }) => `${dtype}, ${device}`))];
  return [
    phrase(title),
    ...sampling(lanes),
    ...numbers,
    machine && word('onMachine', { machine }),
    live ? word(end ?? 'running') : day,
    lost && word('lost', { n: lost }),
  ];
}

// The prompt as the target reads it: every token a piece that names its id.
// A server's lane has only the text.
export const promptPieces = ({ prompt, prompt_pieces: pieces, prompt_ids: ids }) =>
  pieces.length
    ? pieces.map((piece, at) =>
        h(
          'span',
          { class: 'piece', title: word('promptTip', { n: at + 1, id: ids[at] }) },
          visible(piece).replaceAll('\n', '↵'),
        ),
      )
    : [visible(prompt).replaceAll('\n', '↵')];

// How tokens were chosen. A lane that only keeps the target's law writes another text than the baseline when it draws.
export function sampling(lanes) {
  const drawn = lanes.filter(({ sampling: { temperature } }) => temperature > 0);
  const known = lanes.filter(({ sampling: { temperature } }) => temperature !== undefined); // a server tells nothing
  const chosen = known.map(({ sampling: { temperature: t } }) => (t > 0 ? word('temperature', { t }) : word('greedy')));
  const differ = lanes.length > 1 && drawn.some(({ lossless }) => lossless === 'distribution');
  return [...new Set(chosen), differ && word('ownDraws')];
}
