// The question put while a verdict is hidden, and the score.

import { chip, h } from './dom.js';
import { pieceOf, trackOf } from './log.js';
import { say, word } from './words.js';

// `cast(accepted)` is called with the visitor's vote, `reveal()` when there is none.
export function makeQuiz(box, { cast, reveal }) {
  const question = h('p', { class: 'question' });
  const answer = (status, value) =>
    h(
      'button',
      { type: 'button', class: `token ${status}`, 'data-vote': status, onclick: () => cast(value) },
      word(`status.${status}`),
    );
  const answers = h(
    'div',
    { class: 'answers' },
    answer('accepted', true),
    answer('rejected', false),
    h('button', { type: 'button', 'data-action': 'reveal', onclick: reveal }, word('quiz.reveal')),
  );
  const score = h('p', { class: 'score', role: 'status' });
  box.append(question, answers, score);

  // `node` is the guess asked about, null while nothing is hidden.
  return function drawQuiz({ log, lane, predict, node, votes }) {
    box.hidden = !predict && !node;
    if (box.hidden) return;
    answers.hidden = !node;
    question.replaceChildren(
      ...(node
        ? say('quiz.question', { token: chip(pieceOf(trackOf(log, lane), node.token), 'proposed') })
        : [word('quiz.next')]),
    );
    const told = votes.last === null || node ? '' : `${word(votes.last ? 'quiz.right' : 'quiz.wrong')} `;
    score.textContent = votes.cast ? `${told}${word('quiz.score', votes)}` : '';
  };
}
