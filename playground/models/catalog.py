"""The catalog: models, heads and families by name, read from catalog.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from playground.errors import UserError
from playground.models.hub import Hub
from playground.models.sources import FirstOf, Folder, Source, parse_source
from playground.models.wheel import SMOLLM2

PROJECT = Path(__file__).parents[2]
CATALOG = Path(__file__).with_name("catalog.toml")
WHEELS = {SMOLLM2.name: SMOLLM2}
HARDWARE = ("laptop", "16 GB GPU", "24-48 GB GPU", "several GPUs")


@dataclass(frozen=True)
class Entry:
    """A model, or Medusa heads, for which `model` is the id of the model they belong to.

    `parameters` in millions, None for what lies in the project and can be counted there.
    """

    id: str
    source: Source
    revision: str | None
    licence: str
    parameters: float | None
    gated: bool
    run_here: bool
    model: str | None = None


@dataclass(frozen=True)
class Family:
    """What is used together. `hybrid_draft` and its `hybrid_heads` are for Medusa as draft."""

    id: str
    title: str
    about: str
    hardware: str
    target: Entry
    draft: Entry | None = None
    heads: Entry | None = None
    hybrid_draft: Entry | None = None
    hybrid_heads: Entry | None = None

    @property
    def entries(self) -> list[Entry]:
        """All that belongs to it, target first."""
        parts = (self.target, self.draft, self.heads, self.hybrid_draft, self.hybrid_heads)
        return [part for part in parts if part is not None]

    @property
    def provides(self) -> frozenset[str]:
        """Which of a method's needs it meets: "draft", "heads", "draft_heads"."""
        parts = {"draft": self.draft or self.hybrid_draft, "heads": self.heads, "draft_heads": self.hybrid_heads}
        return frozenset(name for name, part in parts.items() if part is not None)

    @property
    def run_here(self) -> bool:
        return all(entry.run_here for entry in self.entries)

    def memory(self, bytes_per_parameter: int) -> int:
        """Bytes of the weights of everything in it, as far as sizes are listed; the cache of a run comes on top."""
        return round(sum(entry.parameters or 0 for entry in self.entries) * 1e6 * bytes_per_parameter)


@dataclass(frozen=True)
class Parts:
    """The sources of one lane's models. Heads belong to the target, draft heads to the draft."""

    target: Source
    draft: Source | None = None
    heads: Source | None = None
    draft_heads: Source | None = None


@dataclass(frozen=True)
class Catalog:
    """Everything that has a name. A `closed` one knows no other models."""

    models: Mapping[str, Entry]
    heads: Mapping[str, Entry]
    families: Mapping[str, Family]
    closed: bool = False

    def only(self, families: Iterable[str]) -> Catalog:
        """These families with what belongs to them, and closed."""
        kept = {name: self.families[name] for name in families}
        ids = {entry.id for family in kept.values() for entry in family.entries}
        models, heads = ({id: table[id] for id in table if id in ids} for table in (self.models, self.heads))
        return Catalog(models, heads, kept, closed=True)

    def source(self, spec: str, allow_local: bool = True) -> Source:
        """Where `spec` comes from: an id of a model, heads or family (its target), or what `parse_source` reads.

        Raises UserError for what is none of them.
        """
        if spec in self.families:
            return self.families[spec].target.source
        entry = self.models.get(spec) or self.heads.get(spec)
        if entry is None and self.closed:
            raise UserError(
                f"{spec!r} is not in memory here, and nothing else is loaded: choose {' or '.join(self.families)}. "
                "The playground on a machine of your own runs other models."
            )
        return entry.source if entry is not None else parse_source(spec, allow_local)

    def sources(self, name: str, allow_local: bool = True) -> list[Source]:
        """All that `name` stands for: every part of a family, or the one source that it names."""
        family = self.families.get(name)
        return [entry.source for entry in family.entries] if family else [self.source(name, allow_local)]

    def parts(
        self,
        target: str,
        draft: str | None = None,
        heads: str | None = None,
        draft_heads: str | None = None,
        hybrid: bool = False,
        allow_local: bool = True,
    ) -> Parts:
        """The sources for a lane. Where `target` is a family, its partners fill what is None.

        `hybrid` asks for the draft that has heads of its own, as Medusa as draft needs.
        """
        family = self.families.get(target)

        def pick(spec: str | None, partner: Entry | None) -> Source | None:
            if spec is not None:
                return self.source(spec, allow_local)
            return partner.source if partner is not None else None

        own = family is not None and draft is None
        return Parts(
            self.source(target, allow_local),
            pick(draft, (family.hybrid_draft if hybrid else family.draft) if family else None),
            pick(heads, family.heads if family else None),
            # the family's draft heads fit the family's own draft only
            pick(draft_heads, family.hybrid_heads if family and own and hybrid else None),
        )


def load_catalog(file: Path = CATALOG, project: Path = PROJECT) -> Catalog:
    """Reads `file`; folders in it are inside `project`. Raises UserError for an entry that is wrong."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    models = {name: _entry(name, table, project) for name, table in tables.get("models", {}).items()}
    heads = {name: _entry(name, table, project) for name, table in tables.get("heads", {}).items()}
    known = {"draft": models, "hybrid_draft": models, "target": models, "heads": heads, "hybrid_heads": heads}
    families = {}
    for name, table in tables.get("families", {}).items():
        try:
            parts = {key: entries[table[key]] for key, entries in known.items() if key in table}
            families[name] = Family(name, table["title"], table["about"], table["hardware"], **parts)
        except KeyError as error:
            raise UserError(f"{file.name}: the family {name!r} names or lacks {error}.") from error
    return Catalog(models, heads, families)


def _entry(name: str, table: Mapping[str, object], project: Path) -> Entry:
    revision = str(table["revision"]) if "revision" in table else None
    places: list[Source] = []
    if "folder" in table:
        places.append(Folder(project / str(table["folder"]), label=name))
    if "hub" in table:
        places.append(Hub(str(table["hub"]), revision or "main"))
    if "wheel" in table:
        places.append(WHEELS[str(table["wheel"])])
    if not places:
        raise UserError(f"The catalog does not say where {name!r} comes from: it needs folder, hub or wheel.")
    parameters = table.get("parameters")
    return Entry(
        name,
        places[0] if len(places) == 1 else FirstOf(tuple(places), label=name),
        revision,
        str(table.get("licence", "unknown")),
        float(str(parameters)) if parameters is not None else None,
        bool(table.get("gated", False)),
        bool(table.get("run_here", False)),
        str(table["model"]) if "model" in table else None,
    )
