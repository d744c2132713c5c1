// The line above the lanes: which run this is, how it was made and how it stands; and what the page has to say.

import { h, visible } from './dom.js';
import { language } from './languages.js';
import { phrase } from './phrases.js';
import { word } from './words.js';

export function drawRunLine({ badge, title, made, facts, notice }, log) {
  badge.textContent = log.run === null ? '' : word(log.live ? 'live' : 'recorded');
  badge.className = `badge ${log.live ? 'live' : 'recorded'}`;
  title.textContent = phrase(log.title);
  made.textContent = madeWith(log);
  made.title = log.live ? '' : word('recordedAt.help');
  facts.textContent = log.run === null ? '' : factsOf(log).filter(Boolean).join(' · ');
  notice.hidden = !log.notice;
  notice.className = `notice ${log.notice?.kind ?? ''}`;
  notice.textContent = phrase(log.notice?.text ?? '');
}

// How tokens were chosen. The form beside may say something else: it is for the run that the visitor starts.
function madeWith({ lanes, live }) {
  const how = sampling(lanes).join(' / ');
  return how && !live ? word('recordedAt', { how }) : how;
}

// Where and when a run was made, and how it stands.
function factsOf({ machine, recorded, lanes, live, end, lost }) {
  const date = new Date(recorded);
  const day = Number.isNaN(date.getTime()) ? recorded : date.toLocaleDateString(language, { dateStyle: 'long' });
  const local = lanes.filter(({ dtype }) => dtype !== 'unknown');
  const numbers = [...new Set(local.map(({ dtype, device }) => `${dtype}, ${device}`))];
  return [
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

const OFF = { top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 };

// The ways in which the lanes of a run chose their tokens, mostly one. A server's lane tells nothing.
export function sampling(lanes) {
  const known = lanes.filter(({ sampling: { temperature } }) => temperature !== undefined);
  return [...new Set(known.map((lane) => choice(lane.sampling)))];
}

const choice = ({ temperature: t, ...rest }) =>
  [
    t > 0 ? word('temperature', { t }) : word('greedy'),
    ...Object.keys(OFF)
      .filter((name) => rest[name] !== undefined && rest[name] !== OFF[name])
      .map((name) => word(`sampling.${name}`, { v: rest[name] })),
  ].join(', ');
