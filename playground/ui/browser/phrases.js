// What Python writes in English (labels of the form, methods and their settings, notices) in the visitor's language.
//
// A table's keys are the English texts. `{name}` in a key stands for any text, which is translated in its turn.

import { language } from './languages.js';
import { PHRASES_PT_BR } from './phrases_pt_br.js';
import { PHRASES_ZH_CN } from './phrases_zh_cn.js';

export const PHRASES = { en: {}, 'pt-BR': PHRASES_PT_BR, 'zh-CN': PHRASES_ZH_CN };

const LISTS = [' · ', '; ']; // between texts that stand side by side

// A function that gives the text of `table` for an English one, and the English one where there is none.
export function translator(table) {
  const patterns = Object.keys(table)
    .filter((key) => key.includes('{'))
    .map((key) => [pattern(key), table[key]]);
  return function translate(text) {
    if (Object.hasOwn(table, text)) return table[text];
    const between = LISTS.find((mark) => text.includes(mark));
    if (between) return text.split(between).map(translate).join(between);
    for (const [form, translation] of patterns) {
      const found = form.exec(text);
      if (found) return translation.replace(/\{(\w+)\}/g, (_, name) => translate(found.groups[name]));
    }
    return text;
  };
}

const pattern = (key) =>
  new RegExp(`^${key.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>.+)')}$`, 's');

export const phrase = translator(PHRASES[language]);
