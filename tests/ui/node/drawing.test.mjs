import assert from 'node:assert/strict';
import { test } from 'node:test';

import { label, visible } from '../../../playground/ui/browser/dom.js';
import { Gate } from '../../../playground/ui/browser/gate.js';
import { emptyLog, receive, trackOf } from '../../../playground/ui/browser/log.js';
import { sampling } from '../../../playground/ui/browser/run_line.js';
import { GLYPHS, STATUSES, shapeOf } from '../../../playground/ui/browser/statuses.js';
import { layOut } from '../../../playground/ui/browser/tree.js';
import { pace } from '../../../playground/ui/browser/view_pace.js';
import { timeline } from '../../../playground/ui/browser/view_timeline.js';
import { say, word } from '../../../playground/ui/browser/words.js';
import { chain, more, opening, plain, tree } from './steps.mjs';

const COLOURS = { lanes: [] };
const run = (steps) => [opening(), more(1, steps)].reduce(receive, emptyLog());

test('every status has a glyph, a shape and a name', () => {
  for (const status of STATUSES) {
    assert.equal(typeof GLYPHS[status], 'string');
    assert.match(shapeOf(status, 5), /^M/);
    assert.ok(word(`status.${status}`));
  }
});

test('the timeline counts what entered the text and what was thrown away', () => {
  const log = run([
    [0, chain('arn')],
    [0, chain('aaa', 'bonus')],
    [1, plain()],
    [0, plain()],
  ]);
  const { data } = timeline(log, 0, 4, COLOURS);
  const bars = Object.fromEntries(data.map((trace) => [trace.meta, trace.y]));
  assert.deepEqual(bars, {
    accepted: [1, 3, 0],
    corrected: [1, 0, 0],
    bonus: [0, 1, 0],
    plain: [0, 0, 1],
    rejected: [1, 0, 0],
    'never-reached': [1, 0, 0],
  });
});

test('the timeline ends at the playhead, its axes at the end of the run', () => {
  const log = run([
    [0, chain('arn')],
    [0, chain('aaa', 'bonus')],
    [0, plain()],
  ]);
  const early = timeline(log, 0, 1, COLOURS);
  const late = timeline(log, 0, 3, COLOURS);
  assert.deepEqual(early.data[0].x, [1]);
  assert.deepEqual(early.layout.xaxis.range, late.layout.xaxis.range);
  assert.deepEqual(early.layout.yaxis.range, late.layout.yaxis.range);
});

test('tokens against seconds, one line per lane from the origin', () => {
  const log = run([
    [0, plain()],
    [1, chain('aa', 'bonus')],
    [0, plain({ seconds: { forward: 0.5, wait: 9 } })],
  ]);
  const [one, two] = pace(log, 0, 3, COLOURS).data;
  assert.deepEqual(
    [one.x, one.y],
    [
      [0, 0.01, 0.51],
      [0, 1, 2],
    ],
  );
  assert.deepEqual(
    [two.x, two.y],
    [
      [0, 0.01],
      [0, 3],
    ],
  );
});

test('a chain is laid out straight, branches below, no two nodes in one place', () => {
  const straight = layOut(trackOf(run([[0, chain('arnn')]]), 0).shape);
  assert.deepEqual(straight.rows, [0, 0, 0, 0]);
  assert.deepEqual([straight.height, straight.depth], [1, 4]);
  const bushy = layOut(trackOf(run([[0, tree([-1, -1, 0, 0, 1], 'rrnnn')]]), 0).shape);
  const places = bushy.rows.map((row, at) => `${row}/${bushy.depths[at]}`);
  assert.equal(new Set(places).size, 5);
  assert.deepEqual(layOut({ places: [], roots: [] }), { rows: [], depths: [], height: 0, depth: 0 });
});

test('a run says how its tokens were chosen: once for lanes alike, and nothing of what is switched off', () => {
  const lane = (temperature, rest) => ({ sampling: { temperature, ...rest } });
  const told = (...lanes) => sampling(lanes);
  assert.deepEqual(told(lane(0), lane(0)), ['temperature 0 (greedy)']);
  assert.deepEqual(told(lane(0.8, { top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1, seed: 3 })), ['temperature 0.8']);
  assert.deepEqual(told(lane(0.8, { top_k: 40, top_p: 0.9 })), ['temperature 0.8, top-k 40, top-p 0.9']);
  assert.deepEqual(told(lane(0), lane(0.8)), ['temperature 0 (greedy)', 'temperature 0.8']);
  assert.deepEqual(told(lane(undefined)), []);
});

test('labels show blanks, and control characters that would reorder the text', () => {
  assert.equal(label(' the'), '␣the');
  assert.equal(label('\n    '), '↵␣×4');
  assert.equal(label(''), '∅');
  assert.equal(visible('a\u202eb\u0007'), 'a‹202E›b‹0007›');
  assert.equal(visible('👩‍🚀 שלום'), '👩‍🚀 שלום');
});

test('a text without its entry is a defect, not an empty string', () => {
  assert.throws(() => say('no such text'), /no such text/);
});

test('the gate draws the latest of many pictures, and settles on exactly the last', async () => {
  const drawn = [];
  const gate = new Gate(async (picture) => {
    drawn.push(picture);
  });
  for (let at = 0; at < 50; at += 1) gate.offer(at);
  gate.settle('last');
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
  assert.ok(drawn.length <= 2);
  assert.equal(drawn.at(-1), 'last');
});

test('a picture that must be exact does not get lost behind a slow drawing', async () => {
  const drawn = [];
  let finish;
  const gate = new Gate((picture) => {
    drawn.push(picture);
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  gate.settle('slow');
  await new Promise((resolve) => {
    setTimeout(resolve, 5);
  });
  gate.offer('skipped');
  gate.settle('exact');
  finish();
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
  assert.deepEqual(drawn, ['slow', 'exact']);
});

test('a gate at rest lets through only what must be exact', async () => {
  const drawn = [];
  const gate = new Gate(async (picture) => {
    drawn.push(picture);
  });
  const turn = () =>
    new Promise((resolve) => {
      setTimeout(resolve, 1);
    });
  gate.rest();
  gate.offer('waits');
  await turn();
  assert.deepEqual(drawn, []);
  gate.settle('exact');
  await turn();
  assert.deepEqual(drawn, ['exact']);
});

test('a drawing that fails does not stop the next', async () => {
  const drawn = [];
  const gate = new Gate(async (picture) => {
    if (picture === 'broken') throw new Error('broken');
    drawn.push(picture);
  });
  await assert.rejects(Object.assign(gate, { latest: 'broken' }).run());
  gate.settle('next');
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
  assert.deepEqual(drawn, ['next']);
});
