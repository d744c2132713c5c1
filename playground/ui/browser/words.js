// Every word that the stage shows. One table per language; `say` fills the blanks.

const EN = {
  recorded: 'Recorded run',
  live: 'Live run',
  stage: 'The run',
  transport: 'Playback',
  promptLabel: 'The prompt, token by token',
  promptTip: 'token {n} of the prompt · id {id}',
  onMachine: 'on {machine}',
  greedy: 'greedy',
  temperature: 'temperature {t}',
  ownDraws: 'same probabilities, own draws: texts may differ',
  empty: 'No run yet. Press Run to start one.',
  running: 'running',
  done: 'finished',
  stopped: 'stopped',
  failed: 'failed',
  broke: 'The server broke off the run. Its own log says why.',
  lost: '{n} updates from the server were lost; the numbers are incomplete.',

  tokensPerSecond: 'tokens / s',
  tokensPerPass: 'tokens / pass',
  accepted: 'accepted',
  'help.tokensPerSecond':
    'Emitted tokens divided by the seconds that this sequence took, prompt included, waiting for the device left out.',
  'help.tokensPerPass': 'Emitted tokens divided by forward passes of the target, those over the prompt included.',
  'help.accepted': 'Share of the proposed tokens that entered the output.',
  sequence: 'sequence {n} of {total}; together {together} tokens / s',
  laneLabel: 'Lane {n}: {title}',
  stripLabel: '{title}: step {n} of {total}, {accepted} of {proposed} proposals accepted',
  stripTip:
    'A column per step. Above the line: the tokens that entered the text. Below it: how many proposals were thrown away. Click to see the step.',
  tokenTip: 'step {step} · {status} · token {token}',
  textless: 'no text of its own: part of a character, or of a stop string',

  'status.proposed': 'proposed',
  'status.accepted': 'accepted',
  'status.rejected': 'rejected',
  'status.never-reached': 'never reached',
  'status.corrected': 'corrected',
  'status.bonus': 'bonus',
  'status.plain': 'plain',
  'status.unknown': 'unknown',
  'meaning.accepted': 'guessed; the target agreed',
  'meaning.rejected': 'guessed; the target disagreed',
  'meaning.never-reached': 'behind a wrong guess: not judged',
  'meaning.corrected': 'the target’s, for a wrong guess',
  'meaning.bonus': 'the target’s, after right guesses',
  'meaning.plain': 'the target’s; nothing guessed',
  odds: 'p, q',
  'meaning.odds': 'target’s, draft’s probability',

  first: 'First step',
  back: 'Step back',
  play: 'Play',
  pause: 'Pause',
  forward: 'Step forward',
  last: 'Last step',
  scrub: 'Position in the run',
  speed: 'Speed',
  perSecond: '{n} steps / s',
  follow: 'Live',
  showRejected: 'Show rejected tokens',
  place: 'Step {n} of {total}',
  time: '{seconds} s',

  treeTitle: 'Proposals',
  storyTitle: 'What happened in this step',
  costTitle: 'Time of this step',
  legendTitle: 'Marks',
  treeLabel: 'Proposed tokens of this step and what became of them',
  targetRow: 'target',
  lastToken: 'last token',
  ahead: '+{n}',
  timelineTitle: 'Proposals step by step',
  paceTitle: 'Tokens against time',
  kept: 'kept',
  wasted: 'wasted',
  step: 'step',
  seconds: 'seconds',
  tokens: 'tokens',

  'tip.p': 'target p',
  'tip.q': 'draft q',
  'tip.u': 'draw u',
  'tip.threshold': 'threshold',
  'tip.source': 'from',
  'tip.id': 'id',

  'phase.prefill': 'prompt',
  'phase.draft': 'draft',
  'phase.forward': 'target pass',
  'phase.acceptance': 'acceptance',
  'phase.bookkeeping': 'bookkeeping',
  rows: '{n} rows',
  'rows.one': '1 row',
  cost: '{ms} ms · {rows} in the pass, {discarded} discarded · cache {before} → {after}',
  waited: 'waited {ms} ms for the device',

  'story.start': 'The prompt is about to be read. Step forward, or press Play.',
  'story.none': 'No guess in this step: {reason}. The pass gave one token, {token}.',
  'story.plain': 'One pass of the target, one token: {token}.',
  'story.told':
    'The server counted {drafted} proposed tokens in this step and {accepted} accepted; it sent {gain}. It does not tell which tokens it rejected.',
  'story.unknown.one': 'The server sent one token and does not tell how it came about.',
  'story.unknown': 'The server sent {n} tokens together and does not tell which of them were proposed.',
  'story.all.one':
    'The one proposed token was accepted, and the same pass gave {token} as a bonus: {gain} tokens from one pass.',
  'story.all':
    'All {n} proposed tokens were accepted, and the same pass gave {token} as a bonus: {gain} tokens from one pass.',
  'story.some.one': 'One token was proposed: {wrong}. The target rejected it and put {token} in its place.',
  'story.some':
    '{n} tokens were proposed, {accepted} accepted. Then the target put {token} where the draft had {wrong}.',
  'story.someNone':
    '{n} tokens were proposed, none accepted: the target put {token} where the draft had {wrong}, and what followed was never judged.',
  'story.tree':
    'A tree of {n} candidates, {depth} deep, was proposed. The target followed it for {accepted} and then put {token} itself.',
  'story.treeAll':
    'A tree of {n} candidates, {depth} deep, was proposed. The target followed one branch to its end and gave {token} as a bonus: {gain} tokens from one pass.',
  'story.treeNone': 'A tree of {n} candidates was proposed and none was the target’s own token: it put {token}.',
  count: '{n} tokens',
  'count.one': '1 token',
  'story.cut.one': 'The one proposed token was accepted, and the run ended there.',
  'story.cut': '{n} tokens were proposed; {accepted} of them entered the text before the run ended.',
  'story.odds':
    'For {wrong} the target had p = {p}, the draft q = {q}. It stays if the draw u is below p/q = {threshold}; u was {u}.',
  'end.eos': 'The run ends: the model said that the text is complete.',
  'end.stop': 'The run ends: a stop string was reached.',
  'end.length': 'The run ends: the length asked for is reached.',
  'end.context': 'The run ends: the model’s context is full.',
};

// Parts of a text: strings, and the given values in place of {name}. A count of one may have wording of its own.
export function say(key, values = {}) {
  const text = (values.n === 1 && EN[`${key}.one`]) || EN[key];
  if (text === undefined) throw new Error(`words.js has no text "${key}"`);
  return text
    .split(/\{(\w+)\}/)
    .map((part, at) => (at % 2 ? values[part] : part))
    .filter((part) => part !== '');
}

export const word = (key, values) => say(key, values).join('');
