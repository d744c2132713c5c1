"""What is deployed, from names as the playground knows them: a family, a catalog id, or the lane of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from playground.decoding.codec import decode_value
from playground.decoding.sampling import Sampling
from playground.decoding.trace import Trace
from playground.deploy.plan import Deployment
from playground.errors import UserError
from playground.methods import get_method
from playground.models.catalog import PROJECT, Catalog
from playground.models.gguf import Gguf
from playground.models.hub import Hub
from playground.models.sources import FirstOf, Folder, Source, parse_source
from playground.remote.lane import VLLM


@dataclass(frozen=True)
class Name:
    """What an engine is told in place of a model of ours, and what a user should know about it."""

    text: str
    note: str = ""


Told = tuple[Deployment, list[str]]
"""A deployment on one GPU, and what is to be known of the names in it. Whatever else it has is set by `replace`."""


def chosen(
    catalog: Catalog,
    method: str,
    settings: Mapping[str, object],
    target: str,
    draft: str | None = None,
    heads: str | None = None,
) -> Told:
    """The deployment of models by name, as lanes take them: a family brings its partners.

    Raises UserError for names and settings that do not fit the method.
    """
    kind = get_method(method)
    parts = catalog.parts(target, draft, heads, hybrid="draft_heads" in kind.needs)
    sources = {"target": parts.target, "draft": parts.draft, "heads": parts.heads}
    used = {part: source for part, source in sources.items() if part == "target" or part in kind.needs}
    return _deployment(method, settings, {part: outside(source) for part, source in used.items() if source})


def of_lane(catalog: Catalog, trace: Trace, lane: int) -> Told:
    """The deployment of what a lane of a run was: its method, settings, models, sampling and prompt.

    Raises UserError for a lane that is a server already, and for one of another version of the playground.
    """
    if not 0 <= lane < len(trace.lanes):
        raise UserError("There is no run yet. Press Run, or open a trace.")
    header = trace.lanes[lane]
    if header.method == VLLM.id:
        raise UserError(f"{header.title} is in production already. Focus a lane that ran here to see its exports.")
    plan, notes = _deployment(
        header.method, header.settings, {part: _recorded(catalog, name) for part, name in header.models.items()}
    )
    sampling = decode_value(Sampling, header.sampling, "The lane's sampling")
    length = trace.max_new_tokens or plan.max_new_tokens
    return replace(plan, sampling=sampling, max_new_tokens=length, prompt=header.prompt, chat=header.chat), notes


def outside(source: Source) -> Name:
    """What a source is called where there is no playground: its hub id, or its path."""
    if isinstance(source, FirstOf):
        return next((outside(one) for one in source.sources if isinstance(one, Hub)), outside(source.sources[0]))
    if isinstance(source, Hub):
        if source.revision == "main":
            return Name(source.repo)
        return Name(source.repo, f"{_code(source.repo)} ran at revision {_code(source.revision)}: pin that one too.")
    if isinstance(source, Folder) and source.path.is_relative_to(PROJECT):
        path = source.path.relative_to(PROJECT).as_posix()
        return Name(
            path,
            f"{_code(source.name)} is on no hub: it is the folder {_code(path)} of this project. Run what follows in "
            "the project's folder, or copy it to the server.",
        )
    if isinstance(source, Folder | Gguf):
        return Name(str(source.path))
    return Name(source.name, f"{_code(source.name)} comes out of a package: put the path of its model folder there.")


def _recorded(catalog: Catalog, name: str) -> Name:
    """The model that a trace calls `name`: a trace holds no path of the machine that made it."""
    entry = catalog.models.get(name) or catalog.heads.get(name)
    if entry is not None:
        return outside(entry.source)
    if "/" in name:
        return outside(parse_source(name, allow_local=False))
    return Name(name, f"{_code(name)} is a folder or file of the machine that made this run: put its path there.")


def _deployment(method: str, settings: Mapping[str, object], names: Mapping[str, Name]) -> Told:
    target, draft, heads = (names[part].text if part in names else None for part in ("target", "draft", "heads"))
    plan = Deployment(method, target or "", settings, draft, heads)
    return plan, list(dict.fromkeys(name.note for name in names.values() if name.note))


def _code(name: str) -> str:
    """`name` as code in Markdown."""
    return f"`{name.replace('`', ' ')}`"
