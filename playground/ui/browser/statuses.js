// The fates of proposed tokens and the roles of emitted ones, in the order of the Python enum `Status`.
// Each has a colour (stage.css, `--accepted` and so on), a glyph and a shape: never colour alone.

export const STATUSES = ['proposed', 'accepted', 'rejected', 'never-reached', 'corrected', 'bonus', 'plain', 'unknown'];

export const GLYPHS = {
  proposed: '?',
  accepted: '•',
  rejected: '×',
  'never-reached': '·',
  corrected: '→',
  bonus: '+',
  plain: '',
  unknown: '?',
};

const circle = (r) => `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
const square = (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`;
const diamond = (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0Z`;
const triangle = (r) => `M0 ${-1.25 * r}L${1.25 * r} ${r}H${-1.25 * r}Z`;
const cross = (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`;
const ring = (r) => circle(0.75 * r);

const SHAPES = {
  proposed: ring,
  accepted: circle,
  rejected: cross,
  'never-reached': ring,
  corrected: diamond,
  bonus: triangle,
  plain: square,
  unknown: ring,
};

// SVG path data of a status's mark, centred on the origin, about `r` to each side.
export const shapeOf = (status, r) => SHAPES[status](r);
