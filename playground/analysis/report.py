"""What the samples of a benchmark say: one table per category and one overall, as data, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from math import comb
from statistics import fmean, median

import plotly.graph_objects as go

from playground.analysis.benchmark import Answer, Sample
from playground.analysis.divergence import Divergence, compare
from playground.analysis.lane_text import baseline_for
from playground.analysis.section import Section, html_row, markdown_row
from playground.decoding.codec import JSON
from playground.decoding.target import TargetModel

OVERALL = "overall"
STEADY = 0.05  # half the interval of a speed-up on a machine with nothing else to do
CONFIDENCE = 0.95  # of an interval, where there are rounds enough

DEFINITIONS = f"""\
tokens/s: tokens over wall time, prefill included, loading and warm-up not; per question over its turns, then the mean
over questions, median of the rounds. speed-up: ratio of two lanes' tokens/s within a round; the median of the rounds,
and from the smallest to the largest of them: of n rounds these hold the median with probability 1 - 2^(1-n). From nine
rounds on the outermost are left out, as many as leave a probability of at least {CONFIDENCE:.0%}.
tokens/pass: tokens over forwards of the target, the prefill's counted. acceptance length: 1 + accepted / steps that
proposed something. acceptance rate: accepted / proposed. by position: of the steps that proposed something, the share
that accepted at least 1, 2, ... tokens. draft, forward, other: shares of the engine's own time. MB: weights of the
models that a lane uses and the key-value caches that it reserved, at its largest answer; on a GPU the most that torch
had allocated meanwhile, other lanes' weights taken off. A lane with a batch or a temperature of its own is compared
with the baseline at the same, and its tokens/s are those of all sequences together. identity: answers that
are id for id those of the autoregressive lane; ties are answers that part where the target's two best tokens lie
closer than its rounding; differ: anything else. A machine is called noisy where an interval is wider than
±{STEADY:.0%}."""


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as another lane: median over rounds, and the interval that holds it."""

    median: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the interval's width, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


@dataclass(frozen=True)
class Row:
    """A lane in a category. None: not to be known from the samples."""

    lane: str
    category: str
    questions: int
    tokens_per_second: float
    speedups: dict[str, Speedup]
    tokens_per_pass: float
    acceptance_length: float | None
    acceptance_rate: float | None
    by_position: list[float]
    shares: dict[str, float]
    identity: dict[str, int] = field(default_factory=dict)
    memory: int | None = None
    notices: list[str] = field(default_factory=list)


Verdicts = Mapping[tuple[str, str, int], str]


def make_rows(samples: Sequence[Sample], baselines: Sequence[str], verdicts: Verdicts | None = None) -> list[Row]:
    """A row per lane, overall and then per category; `baselines` are the lanes that speed-ups are taken over."""
    lanes = list(dict.fromkeys(sample.lane for sample in samples))
    categories = list(dict.fromkeys(sample.category for sample in samples))
    rows = []
    for category in [OVERALL, *(categories if len(categories) > 1 else [])]:
        chosen = [sample for sample in samples if category in (OVERALL, sample.category)]
        rates = {lane: _rates([sample for sample in chosen if sample.lane == lane]) for lane in lanes}
        for lane in lanes:
            own = [sample for sample in chosen if sample.lane == lane]
            rows.append(_row(lane, category, own, rates, [base for base in baselines if base in lanes], verdicts or {}))
    return rows


def _row(
    lane: str,
    category: str,
    samples: Sequence[Sample],
    rates: Mapping[str, Mapping[int, float]],
    baselines: Iterable[str],
    verdicts: Verdicts,
) -> Row:
    answers = [answer for sample in samples for answer in sample.answers]
    histogram = _added([answer.accepted for answer in answers])
    steps, accepted = sum(histogram), sum(at * count for at, count in enumerate(histogram))
    drafted = sum(answer.drafted for answer in answers)
    passes = sum(answer.passes for answer in answers)
    told = [answer for answer in answers if answer.shares]
    questions = {sample.question for sample in samples}
    found = [verdict for (who, question, _), verdict in verdicts.items() if who == lane and question in questions]
    return Row(
        lane=lane,
        category=category,
        questions=len(questions),
        tokens_per_second=median(rates[lane].values()),
        speedups={
            base: _speedup(rates[lane], rates[_partner(lane, base, rates)]) for base in baselines if base != lane
        },
        tokens_per_pass=sum(len(answer.output_ids) for answer in answers) / passes if passes else 0.0,
        acceptance_length=1 + accepted / steps if steps else None,
        acceptance_rate=accepted / drafted if drafted else None,
        by_position=[sum(histogram[at:]) / steps for at in range(1, len(histogram))],
        shares={name: _share(told, name) for name in (told[0].shares if told else ())},
        identity={verdict: found.count(verdict) for verdict in dict.fromkeys(found)},
        memory=max((answer.memory.peak for answer in answers if answer.memory), default=None),
        notices=[notice for notice in answers[0].notices if all(notice in answer.notices for answer in answers)],
    )


def _partner(lane: str, base: str, lanes: Collection[str]) -> str:
    """Who `lane` is compared with: `base`, at its own batch and temperature where that was measured."""
    own = baseline_for(lane, base)
    return base if own == lane or own not in lanes else own


def _rates(samples: Sequence[Sample]) -> dict[int, float]:
    """Tokens per second in every round: the mean over its questions."""
    rounds = sorted({sample.round for sample in samples})
    return {at: fmean(one.tokens / one.seconds for one in samples if one.round == at) for at in rounds}


def _speedup(own: Mapping[int, float], base: Mapping[int, float]) -> Speedup:
    ratios = sorted(own[at] / base[at] for at in own if at in base)
    outer = _outer(len(ratios))
    return Speedup(median(ratios), ratios[outer], ratios[-1 - outer])


def _outer(rounds: int) -> int:
    """How many of the smallest and of the largest of so many values may be left out, and the rest holds the median of
    what they are drawn from with probability CONFIDENCE at least; 0 where even all of them hold it with less."""
    outer, missed = 0, 2.0**-rounds
    while 2 * (missed := missed + comb(rounds, outer + 1) * 2.0**-rounds) <= 1 - CONFIDENCE:
        outer += 1
    return outer


def _added(histograms: Iterable[Sequence[int]]) -> list[int]:
    total: list[int] = []
    for histogram in histograms:
        total += [0] * (len(histogram) - len(total))
        for at, count in enumerate(histogram):
            total[at] += count
    return total


def _share(answers: Sequence[Answer], name: str) -> float:
    """Weighted by time, as if all answers were one."""
    whole = sum(answer.seconds for answer in answers)
    return sum(answer.shares[name] * answer.seconds for answer in answers) / whole


def judge(
    samples: Sequence[Sample], baseline: str, lanes: Sequence[str], target: TargetModel, penalty: float = 1.0
) -> dict[tuple[str, str, int], str]:
    """Greedy answers of `lanes` against those of `baseline`: "same", "tie" or "differs", by lane, question and turn.

    Only answers to the same prompt are compared: after a tie in one turn the next ones are other conversations.
    """
    first = {(one.lane, one.question): one for one in reversed(samples)}  # the earliest round there is
    found: dict[tuple[str, str, int], str] = {}
    for lane in lanes:
        for (who, question), sample in first.items():
            if who != lane or (baseline, question) not in first:
                continue
            base = first[baseline, question]
            for turn, (own, other) in enumerate(zip(sample.answers, base.answers, strict=False)):
                if own.prompt_ids == other.prompt_ids:
                    parted = compare(target, own.prompt_ids, own.output_ids, other.output_ids, penalty)
                    found[lane, question, turn] = _verdict(parted)
    return found


def _verdict(parted: Divergence | None) -> str:
    if parted is None:
        return "same"
    return "tie" if parted.verdict == "tie" else "differs"


def explain(row: Row, baseline: Row) -> str:
    """Why a lane is faster or slower than `baseline`, from its own measurements."""
    speedup = row.speedups[baseline.lane]
    per_pass = row.tokens_per_pass / baseline.tokens_per_pass
    verdict = "faster than" if speedup.low > 1 else "slower than" if speedup.high < 1 else "as fast as"
    told = f"{row.lane} is {verdict} {baseline.lane} ({speedup.median:.2f}x): {per_pass:.2f} times the tokens per pass"
    cost = per_pass / speedup.median
    told += f", each taking {cost:.2f} times as long"
    if row.shares:
        biggest = max(row.shares, key=lambda name: row.shares[name])
        told += f"; {row.shares[biggest]:.0%} of its time is {biggest}"
        if row.shares["draft"] > 0.05 and biggest != "draft":
            told += f", {row.shares['draft']:.0%} draft"
    return told + "."


def noise(rows: Sequence[Row]) -> str | None:
    """A sentence where the machine was not steady enough for the numbers to be trusted, or where one round cannot
    tell; None where it was."""
    half = widest(rows)
    if half is None or 0 < half <= STEADY:
        return None
    if half == 0:
        return "Every speed-up is of one round, which cannot tell how steady the machine was. Measure several."
    return f"The machine was noisy: a speed-up varied by ±{half:.0%} between rounds, more than ±{STEADY:.0%}."


def widest(rows: Sequence[Row]) -> float | None:
    """Half the widest interval of an overall speed-up, as a share of its median; None where nothing was compared."""
    return max((s.half for row in rows if row.category == OVERALL for s in row.speedups.values()), default=None)


def remarks(rows: Sequence[Row]) -> list[str]:
    """What lanes had to say of themselves: that something else was run than was asked for, say."""
    return [f"{row.lane}: {notice}" for row in rows if row.category == OVERALL for notice in row.notices]


HEAD = ("tokens/s", "tokens/pass", "acceptance length", "acceptance rate", "by position", "draft/forward/other", "MB")


def cells(row: Row, baselines: Sequence[str]) -> list[str]:
    """A row of the table, as text."""

    def optional(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    speedups = []
    for base in baselines:
        found = row.speedups.get(base)
        speedups.append(f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})" if found else "1")
    return [
        row.lane,
        f"{row.tokens_per_second:.1f}",
        *speedups,
        f"{row.tokens_per_pass:.2f}",
        optional(row.acceptance_length, ".2f"),
        optional(row.acceptance_rate, ".0%"),
        " ".join(f"{rate:.2f}".lstrip("0") for rate in row.by_position[:8]),
        "/".join(f"{100 * share:.0f}" for share in row.shares.values()),
        optional(row.memory and row.memory / 1e6, ".0f"),
        ", ".join(f"{count} {verdict}" for verdict, count in row.identity.items()),
    ]


def header(baselines: Sequence[str]) -> list[str]:
    """Titles of the columns of `cells`."""
    return ["lane", HEAD[0], *(f"x {base}" for base in baselines), *HEAD[1:], "identity"]


def to_json(rows: Sequence[Row], facts: Mapping[str, str], sections: Sequence[Section] = ()) -> dict[str, JSON]:
    """The report as data; a section's is under its key."""
    given: dict[str, JSON] = {"facts": dict(facts), "rows": [asdict(row) for row in rows], "definitions": DEFINITIONS}
    return given | {section.key: section.data for section in sections}


def to_markdown(
    rows: Sequence[Row], baselines: Sequence[str], facts: Mapping[str, str], sections: Sequence[Section] = ()
) -> str:
    """The report as text."""
    parts = ["# Benchmark", *(f"- {name}: {value}" for name, value in facts.items())]
    for category, table in _tables(rows):
        titles = header(baselines)
        parts += [
            "",
            f"## {category} ({table[0].questions} questions)",
            "",
            markdown_row(titles),
            markdown_row(["---"] * len(titles)),
        ]
        parts += [markdown_row(cells(row, baselines)) for row in table]
    parts += ["", *_told(rows, baselines), "", DEFINITIONS, *(section.markdown() for section in sections)]
    return "\n".join(parts) + "\n"


def to_html(
    rows: Sequence[Row], baselines: Sequence[str], facts: Mapping[str, str], sections: Sequence[Section] = ()
) -> str:
    """The report as one page that needs nothing else: Plotly is inside."""
    parts = [f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts.items()]
    body = [f"<h1>Benchmark</h1><ul>{''.join(parts)}</ul>", figure(rows, baselines).to_html(full_html=False)]
    for category, table in _tables(rows):
        lines = [html_row(header(baselines), "th"), *(html_row(cells(row, baselines), "td") for row in table)]
        body.append(f"<h2>{escape(category)} ({table[0].questions} questions)</h2>")
        body.append(f"<table>{''.join(lines)}</table>")
    body += [f"<p>{escape(told)}</p>" for told in (*_told(rows, baselines), DEFINITIONS)]
    body += [section.html() for section in sections]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Benchmark</title><style>'
        "body{font:15px/1.5 system-ui,sans-serif;margin:32px;max-width:1200px}table{border-collapse:collapse}"
        "td,th{padding:4px 12px 4px 0;text-align:left;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}"
        f"</style><body>{''.join(body)}</body></html>"
    )


def figure(rows: Sequence[Row], baselines: Sequence[str]) -> go.Figure:
    """Speed-up per category over the first baseline, with the rounds' range as whiskers."""
    made = go.Figure()
    for lane in dict.fromkeys(row.lane for row in rows):
        own = [row for row in rows if row.lane == lane and baselines and baselines[0] in row.speedups]
        found = [row.speedups[baselines[0]] for row in own]
        if own:
            made.add_bar(
                name=lane,
                x=[row.category for row in own],
                y=[one.median for one in found],
                error_y={
                    "array": [one.high - one.median for one in found],
                    "arrayminus": [one.median - one.low for one in found],
                },
            )
    made.add_hline(y=1, line_dash="dot")
    made.update_layout(
        template="none", barmode="group", yaxis_title=f"speed-up over {baselines[0]}" if baselines else ""
    )
    return made


def _told(rows: Sequence[Row], baselines: Sequence[str]) -> list[str]:
    """One sentence per lane, and one about the machine where it was noisy."""
    overall = {row.lane: row for row in rows if row.category == OVERALL}
    base = next((overall[name] for name in baselines if name in overall), None)
    told = [explain(row, base) for row in overall.values() if base and base.lane in row.speedups]
    noisy = noise(rows)
    return [*told, *remarks(rows), *([noisy] if noisy else [])]


def _tables(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(name, [row for row in rows if row.category == name]) for name in dict.fromkeys(r.category for r in rows)]
