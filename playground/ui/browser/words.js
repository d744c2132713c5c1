// The words of the page in the visitor's language: `say` fills the blanks of a text, numbers are written as usual there.

import { language } from './languages.js';
import { EN } from './words_en.js';
import { PT_BR } from './words_pt_br.js';
import { ZH_CN } from './words_zh_cn.js';

export const TABLES = { en: EN, 'pt-BR': PT_BR, 'zh-CN': ZH_CN };
const TABLE = TABLES[language];

// Parts of a text: strings, and the given values in place of {name}. A count of one may have wording of its own.
export function say(key, values = {}) {
  const text = (values.n === 1 && TABLE[`${key}.one`]) || TABLE[key];
  if (text === undefined) throw new Error(`There is no text "${key}" in ${language}.`);
  return filled(text, values);
}

// A blank is {name}, or {name?word|words}: the one word where the value is 1, else the other.
const BLANK = /\{(\w+)(?:\?([^|}]*)\|([^}]*))?\}/;

// The parts of a text with blanks.
export function filled(text, values) {
  const pieces = text.split(BLANK); // by turns a text and the three groups of a blank
  const blank = (name, one, many) =>
    many === undefined ? written(values[name]) : String(values[name]) === '1' ? one : many;
  return pieces
    .flatMap((piece, at) => (at % 4 === 0 ? [piece] : at % 4 === 1 ? [blank(...pieces.slice(at, at + 3))] : []))
    .filter((part) => part !== '');
}

export const word = (key, values) => say(key, values).join('');

const written = (value) => (typeof value === 'number' && !Number.isInteger(value) ? plain.format(value) : value);
const plain = new Intl.NumberFormat(language, { useGrouping: false, maximumFractionDigits: 20 });

// A number with so many digits behind the decimal sign, and a share as a percentage.
export const number = (value, digits) =>
  format({ minimumFractionDigits: digits, maximumFractionDigits: digits }, value);
export const percent = (share, digits = 0) => word('percent', { x: number(100 * share, digits) });

// A number with so many significant digits.
export const precise = (value, digits) =>
  format({ minimumSignificantDigits: digits, maximumSignificantDigits: digits }, value);

const format = (options, value) => new Intl.NumberFormat(language, { useGrouping: false, ...options }).format(value);
