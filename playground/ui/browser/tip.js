// The note that appears at the pointer over a node of the tree.

import { h } from './dom.js';

export function makeTip(stage) {
  const box = h('div', { class: 'tip', role: 'tooltip', hidden: true });
  stage.append(box);
  const hide = () => {
    box.hidden = true;
  };
  return {
    hide,
    show(event, { title: [piece, name, status], facts, reason }) {
      box.replaceChildren(
        h('p', {}, h('span', { class: `token ${status}` }, piece), ' ', name),
        h(
          'dl',
          {},
          facts.flatMap(([key, value]) => [h('dt', {}, key), h('dd', {}, value)]),
        ),
        h('p', { class: 'reason' }, reason),
      );
      box.hidden = false;
      const frame = stage.getBoundingClientRect();
      const left = Math.min(event.clientX - frame.left + 14, frame.width - box.offsetWidth - 8);
      box.style.transform = `translate(${Math.max(8, left)}px, ${event.clientY - frame.top + 16}px)`;
      event.currentTarget.addEventListener('pointerleave', hide, { once: true });
    },
  };
}
