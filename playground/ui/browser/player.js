// The stage without a server: a file that plays the one run written into it.

import { mount as mountHeader } from './header.js';
import { fileMessage } from './log.js';
import { mount as mountStage } from './stage.js';

export function mount(document) {
  const message = fileMessage(document.getElementById('trace').textContent, 'file');
  mountHeader(document.getElementById('header'), { lent: false });
  mountStage(document.getElementById('stage'), { value: JSON.stringify(message) }, () => {});
}
