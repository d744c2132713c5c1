// What a draft model did inside a step: its own passes, what it checked there, and what the target made of the result.

import { cells } from './cells.js';
import { brief, escape, isVeiled, named, nothing, standing, tint } from './frame.js';
import { pieceOf } from './log.js';
import { phrase } from './phrases.js';
import { lost } from './sentence.js';
import { GLYPHS } from './statuses.js';
import { word } from './words.js';

export const hasInner = (step) => step.children.length > 0;

// Columns are places behind the last committed token. From top to bottom: per pass of the draft model what its own
// drafter guessed and what the draft model kept or put itself; the target's verdict on that; the text it became. A
// draft model without a drafter of its own writes a token a pass, which is one row for all its passes.
export function nestedDraft(log, lane, head, colours, width = 640) {
  const { track, step } = standing(log, lane, head);
  if (!step) return nothing(colours);
  if (!hasInner(step))
    return nothing(
      colours,
      step.nodes.length
        ? word('view.notInner', { source: phrase(step.nodes[0].source) })
        : phrase(step.reason) || word('meaning.plain'),
    );
  const k = step.nodes.length;
  const cell = ({ token, status, source = '' }, cut) => ({
    kind: cut ? 'cut' : status,
    id: token,
    text: brief(pieceOf(track, token)),
    glyph: GLYPHS[status],
    hover: [
      `<b>${named(pieceOf(track, token))}</b>`,
      cut ? word('view.cut', { n: k }) : word(`status.${status}`),
      escape(phrase(source)),
    ]
      .filter(Boolean)
      .join('<br>'),
  });
  const line = (name, offset, tokens, most = k) => ({
    name,
    cells: [...Array(offset).fill(null), ...tokens.map((one, at) => cell(one, offset + at >= most))],
  });
  const guessed = step.children.some(({ nodes }) => nodes.length);
  const lines = [];
  let offset = 0;
  for (const [at, inner] of step.children.entries()) {
    const wrong = lost(inner);
    const path = inner.nodes.filter(({ status }) => status === 'accepted');
    if (guessed) lines.push(line(word('view.heads', { n: at + 1 }), offset, wrong ? [...path, wrong] : path));
    if (guessed) lines.push(line(word('view.draft', { n: at + 1 }), offset, inner.emitted));
    offset += inner.emitted.length;
  }
  if (!guessed)
    lines.push(
      line(
        word('view.drafts', { n: step.children.length }),
        0,
        step.children.flatMap(({ emitted }) => emitted),
      ),
    );
  lines.push(line(word('view.target'), 0, step.nodes));
  lines.push(line(word('view.text'), 0, step.emitted, Infinity));
  const columns = Math.max(...lines.map((one) => one.cells.length));
  const { trace, layout } = cells({
    rows: lines.map((one) => one.cells),
    fills: {
      plain: tint(colours.plain, 0.3),
      proposed: tint(colours.plain, 0.2),
      accepted: tint(colours.accepted, 0.4),
      rejected: tint(colours.rejected, 0.35),
      'never-reached': tint(colours.plain, 0.12),
      corrected: tint(colours.corrected, 0.45),
      bonus: tint(colours.bonus, 0.35),
      unknown: tint(colours.plain, 0.2),
      cut: tint(colours.plain, 0.06),
    },
    names: lines.map((one) => one.name),
    top: Array.from({ length: columns }, (_, at) => word('ahead', { n: at + 1 })),
    x: word('view.position'),
    colours,
    width,
    row: 30,
    gap: 3,
  });
  const tried = step.children.reduce((sum, { nodes }) => sum + nodes.length, 0);
  const agreed = step.children.reduce(
    (sum, { emitted }) => sum + emitted.filter(({ status }) => status === 'accepted').length,
    0,
  );
  const kept = step.nodes.filter(({ status }) => status === 'accepted').length;
  const passes = word('view.passes', { n: step.children.length });
  return {
    data: [trace],
    layout,
    caption: isVeiled(step)
      ? word('view.veiled', { n: k })
      : word(guessed ? 'view.nested' : 'view.nestedPlain', { passes, k, tried, agreed, kept }),
  };
}
