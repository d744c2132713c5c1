// What the visitor takes home: the trace file of a run, and a page that plays it.

import { traceLines } from './log.js';

const text = (log) => `${traceLines(log).join('\n')}\n`;

export const saveTrace = (log) => download(`trace-${log.run}.jsonl`, 'application/jsonl', [text(log)]);

export const saveText = (name, type, text) => download(name, type, [text]);

// `player` is what comes before and after the trace, see player.py; `<` is escaped as it is there.
export const savePage = (log, [before, after]) =>
  download(`run-${log.run}.html`, 'text/html', [before, text(log).replaceAll('<', '\\u003c'), after]);

function download(name, type, parts) {
  const link = Object.assign(document.createElement('a'), {
    href: URL.createObjectURL(new Blob(parts, { type })),
    download: name,
  });
  link.click();
  URL.revokeObjectURL(link.href);
}
