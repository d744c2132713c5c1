"""Options that several commands have, with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Models = Annotated[str, typer.Option(help="A family of the catalog.")]
Target = Annotated[str | None, typer.Option(help="Hub id, folder or GGUF file instead of the family's.")]
Draft = Annotated[str | None, typer.Option(help="Likewise, for the draft model.")]
Heads = Annotated[str | None, typer.Option(help="Medusa heads: hub id, folder or file.")]
DraftHeads = Annotated[str | None, typer.Option(help="Medusa heads of the draft model.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting of the method: name=value.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
TopK = Annotated[int, typer.Option(help="0 is off.")]
TopP = Annotated[float, typer.Option(help="1 is off.")]
MinP = Annotated[float, typer.Option(help="0 is off.")]
RepetitionPenalty = Annotated[float, typer.Option(help="1 is off.")]
Seed = Annotated[int, typer.Option(help="Same seed, same text.")]
Chat = Annotated[bool | None, typer.Option("--chat/--no-chat", help="Use the chat template.")]
Length = Annotated[int, typer.Option(help="Most tokens to write.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, ...")]
Chart = Annotated[Path | None, typer.Option(help="Write the chart to this file.")]
