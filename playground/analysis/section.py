"""A part of a report: a title, a table, sentences and figures, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import plotly.graph_objects as go

from playground.decoding.codec import JSON


@dataclass(frozen=True)
class Section:
    """`table` begins with its titles. `data` is what the section says, for programs, under `key`."""

    key: str
    title: str
    table: list[list[str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    figures: list[go.Figure] = field(default_factory=list)
    data: JSON = None

    def markdown(self) -> str:
        """The section as text."""
        lines = ["", f"## {self.title}", ""]
        if self.table:
            titles, *rows = self.table
            lines += [markdown_row(titles), markdown_row(["---"] * len(titles)), *map(markdown_row, rows), ""]
        return "\n".join([*lines, *self.told])

    def html(self) -> str:
        """The section as HTML; Plotly has to be on the page."""
        parts = [f"<h2>{escape(self.title)}</h2>"]
        parts += [figure.to_html(full_html=False, include_plotlyjs=False) for figure in self.figures]
        if self.table:
            titles, *rows = self.table
            lines = [html_row(titles, "th"), *(html_row(row, "td") for row in rows)]
            parts.append(f"<table>{''.join(lines)}</table>")
        return "".join([*parts, *(f"<p>{escape(told)}</p>" for told in self.told)])


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a table, with whatever a cell holds."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def html_row(cells: Sequence[str], tag: str) -> str:
    """A line of a table; `tag` is td or th."""
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
