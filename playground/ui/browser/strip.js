// The step strip: one column per step. Above the line what entered the text, a cell per token; below it the number of
// proposals thrown away.

import { GLYPHS } from './statuses.js';

const CELL = 14;
const GAP = 2;
const ROWS = 8;
const PITCH = CELL + GAP;

const columnsIn = (width) => Math.max(1, Math.floor((width + GAP) / PITCH));
const firstColumn = (count, width) => Math.max(0, count - columnsIn(width));

export const stripRows = (tracks) => Math.min(ROWS, Math.max(2, ...tracks.map((track) => track?.most ?? 0)));

// The step under a horizontal offset, or -1.
export function stepAt(offset, count, width) {
  const step = firstColumn(count, width) + Math.floor(offset / PITCH);
  return step < count ? step : -1;
}

// `rows` cells of room above the line, the same for all lanes so that their lines are level.
export function drawStrip(canvas, track, count, rows, colours) {
  const width = canvas.clientWidth;
  const height = (rows + 1) * PITCH + 3;
  // Projector mode zooms the page: draw as many pixels as there are on the screen.
  const scale = (window.devicePixelRatio * canvas.getBoundingClientRect().width) / width || 1;
  canvas.style.height = `${height}px`;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const brush = canvas.getContext('2d');
  brush.scale(scale, scale);
  brush.textAlign = 'center';
  brush.textBaseline = 'middle';
  const base = rows * PITCH;
  brush.fillStyle = colours.line;
  brush.fillRect(0, base, width, 1);
  const first = firstColumn(count, width);
  for (let at = first; at < count; at += 1) {
    const step = track.steps[at];
    const x = (at - first) * PITCH;
    step.emitted.slice(0, rows).forEach(({ status }, row) => {
      cell(brush, x, base - (row + 1) * PITCH, colours[status], GLYPHS[status], colours.paper);
    });
    const wasted = step.nodes.filter(({ status }) => status === 'rejected' || status === 'never-reached').length;
    if (wasted) cell(brush, x, base + 3, colours.rejectedTint, String(wasted), colours.ink);
    if (at === count - 1)
      outline(brush, x, base - step.emitted.length * PITCH, step.emitted.length * PITCH, colours.ink);
  }
}

function cell(brush, x, y, colour, glyph, ink) {
  brush.fillStyle = colour;
  brush.fillRect(x, y, CELL, CELL);
  brush.fillStyle = ink;
  brush.font = `600 ${glyph.length > 1 ? 9 : 11}px ui-monospace, monospace`;
  brush.fillText(glyph, x + CELL / 2, y + CELL / 2 + 0.5);
}

function outline(brush, x, y, height, colour) {
  brush.strokeStyle = colour;
  brush.lineWidth = 1.5;
  brush.strokeRect(x - 1, Math.max(1, y - 1), CELL + 2, height);
}
