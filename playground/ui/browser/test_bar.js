// The bar that shows how a guess was judged by its numbers.

import { h } from './dom.js';
import { short } from './sentence.js';
import { testOf } from './trials.js';
import { word } from './words.js';

// Where the draw fell: kept to the left of the threshold, rejected to the right. Under typical acceptance p is what has
// to lie beyond it.
export function testBar(node) {
  const kind = testOf(node);
  if (kind !== 'ratio' && kind !== 'typical') return null;
  const [mark, name] = kind === 'ratio' ? [node.u, 'u'] : [node.p, 'p'];
  const whole = kind === 'ratio' ? 1 : Math.max(2 * node.threshold, node.p);
  const percent = (value) => `${((100 * value) / whole).toFixed(2)}%`;
  const said = word(`test.${kind}.label`, { mark: short(mark), threshold: short(node.threshold) });
  return h(
    'span',
    { class: `test-bar ${kind} ${node.status}`, role: 'img', 'aria-label': said, title: said },
    h('i', { class: 'zone', style: `width:${percent(node.threshold)}` }),
    h('i', { class: 'at', style: `left:${percent(mark)}` }, h('b', {}, name)),
  );
}
