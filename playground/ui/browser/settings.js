// A lane's settings in words. Those that are switched off, or have no say, are left out.

import { phrase } from './phrases.js';
import { TABLES, word } from './words.js';

const OFF = {
  batch: (value) => value <= 1,
  confidence: (value) => value === 0,
  acceptance: (value) => value === 'exact',
  posterior_threshold: (_, { acceptance }) => acceptance !== 'typical',
  posterior_alpha: (_, { acceptance }) => acceptance !== 'typical',
};

export const settingsTold = (settings) =>
  Object.entries(settings)
    .filter(([name, value]) => value !== '' && value !== false && !OFF[name]?.(value, settings))
    .map(([name, value]) => told(name, phrase(String(value))))
    .join(' · ');

// What a server's lane is told has no words here: its names are the server's.
const told = (name, v) => (`setting.${name}` in TABLES.en ? word(`setting.${name}`, { v }) : `${plain(name)} ${v}`);

// All of them by the names that the form gives them.
export const settingsNamed = (settings) =>
  Object.entries(settings)
    .map(([name, value]) => `${plain(name)} ${phrase(String(value))}`)
    .join(' · ');

const plain = (name) => phrase(name.replaceAll('_', ' '));
