// The words of the page: blanks, and the forms of what is counted.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TABLES, filled, say, word } from '../../../playground/ui/browser/words.js';

const COUNTED = [
  'token',
  'step',
  'row',
  'pass',
  'guess',
  'candidate',
  'n-gram',
  'sequence',
  'update',
  'column',
  'layer',
];
const plural = (noun) => (noun.endsWith('s') ? `${noun}es` : `${noun}s`);
// Averages, and numbers that are never one where the text is used.
const MANY = ['gain', 'mean', 'length', 'expected', 'pass', 'together', 'of', 'passes'];
const NEVER_ONE = [
  'why.forward',
  'train.verdict',
  'view.tooMany',
  'view.unsolved',
  'story.someNone',
  'measure.limits',
  'whatIf.expected',
];

test('a blank takes its value, and the word that goes with it', () => {
  const text = '{n} {n?row|rows} of {who}: {gone} {gone?is|are} discarded';
  assert.equal(filled(text, { n: 1, who: 'us', gone: 4 }).join(''), '1 row of us: 4 are discarded');
  assert.equal(filled(text, { n: '1', who: 'us', gone: 1 }).join(''), '1 row of us: 1 is discarded');
  assert.equal(filled(text, { n: 0, who: '', gone: 0 }).join(''), '0 rows of : 0 are discarded');
  assert.deepEqual(say('told.ended', { at: 1 }), [
    'after ',
    1,
    ' ',
    'token',
    ' one of the two ended and the other went on.',
  ]);
});

test('one of a thing is not told as many', () => {
  assert.equal(
    word('view.timeline', { n: 1, proposed: 1, accepted: 0, emitted: 1 }),
    'One step: 1 token proposed, 0 of them accepted, 1 token in the text.',
  );
  assert.match(
    word('one.cacheTold', { n: 1, rows: 2, gone: 1, before: 40, after: 41 }),
    /stays, 1 is discarded: 40 rows/,
  );
  assert.equal(word('perSecond', { n: 1 }), '1 step / s');
  assert.equal(word('setting.exit_layer', { v: '1' }), 'the first 1 layer guesses');
});

test('no text counts things in the plural only', () => {
  const counted = new RegExp(
    `\\{(\\w+)\\} (?:shared |proposed )?(${COUNTED.map(plural).join('|')})\\b(?! / s| a pass| a step)`,
    'g',
  );
  const wrong = Object.entries(TABLES.en)
    .filter(([key]) => !NEVER_ONE.includes(key))
    .flatMap(([key, text]) =>
      [...text.matchAll(counted)]
        .filter(([, name]) => !MANY.includes(name) && !(name === 'n' && `${key}.one` in TABLES.en))
        .map(([found]) => `${key}: ${found}`),
    );
  assert.deepEqual(wrong, []);
});
