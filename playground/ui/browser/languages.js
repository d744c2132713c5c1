// The languages of the page, and which of them this visitor reads.

import { recall, retain } from './memory.js';

export const LANGUAGES = { en: 'English', 'pt-BR': 'Português (Brasil)', 'zh-CN': '简体中文' };

// The first of the wanted languages that there is; `pt` and `pt-PT` get the one Portuguese, and so on.
export function choose(wanted) {
  const ids = Object.keys(LANGUAGES);
  const base = (tag) => tag.toLowerCase().split('-')[0];
  for (const tag of wanted.filter(Boolean)) {
    const found = ids.find((id) => id.toLowerCase() === tag.toLowerCase()) ?? ids.find((id) => base(id) === base(tag));
    if (found) return found;
  }
  return 'en';
}

// What the address asks for, then what was chosen before, then what the browser prefers. Under Node: English.
const wanted = () => [
  new URLSearchParams(window.location.search).get('lang'),
  recall('localStorage', 'language'),
  ...window.navigator.languages,
];

export const language = choose(globalThis.window?.location ? wanted() : []);

// Keep the choice and show the page anew; the rest of the address stays as it is.
export function change(id) {
  retain('localStorage', 'language', id);
  const url = new URL(window.location);
  url.searchParams.set('lang', id);
  window.history.replaceState(null, '', url);
  window.location.reload(); // over which the last run is kept
}
