"""What strangers may send: values of every wrong kind, and texts that mean something to somebody."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "[INST]", "<0x0A>", "<pad>",
]  # fmt: skip
MARKUP = ["</script>", "<script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", "&lt;", "${a}{{b}}", "'\"`"]
CONTROL = ["\0", "\x1b[2J", "\r\n", "\x7f", "\u2028", "\ufeff", "\u202e", "\u200d", "\U0010ffff", "\ud800", "\udfff"]
PATHS = [
    "../", "..\\", "/", "//", "~", "~root/", "./", "C:\\", "file:///", "%2e%2e%2f", "..%2f", "\0", "etc/passwd", "@",
    "@main", "@../../x", ".gguf", ".pt", ".safetensors", "owner/name", "models--x--y", "refs", ".git", "*", "\n", "con",
    " ", "é", "\ud800", "x" * 120, "x" * 5000, "|", "$HOME", "`id`",
]  # fmt: skip
NUMBERS = [
    -1, 0, 1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan"), True,
]  # fmt: skip

awkward = st.sampled_from([*SPECIAL, *MARKUP, *CONTROL])
texts = st.lists(awkward | st.text(max_size=12) | st.characters(categories=["Cs", "Cc"]), max_size=8).map("".join)
scalars = st.none() | st.sampled_from(NUMBERS) | st.integers() | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))


def changed(draw: st.DrawFn, value: object, times: int = 3) -> object:
    """`value`, parsed JSON, with a few of its inner values replaced, taken out, doubled or put somewhere else."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, times))):
        places = [*_places(value)]
        if not places:
            return value
        holder, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "replace", "remove", "double", "swap", "rename"])):
            case "replace":
                holder[key] = draw(values)
            case "remove":
                del holder[key]
            case "double" if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case "swap":
                other, at = draw(st.sampled_from(places))
                holder[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(holder[key])
            case "rename" if isinstance(holder, dict):
                holder[draw(texts)] = holder.pop(key)
    return value


def _places(value: object) -> Iterator[tuple[dict | list, object]]:
    """Every (holder, key or index) inside `value`."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in [*keys]:
        yield value, key
        yield from _places(value[key])


class Watch:
    """Which files and folders this process opens, lists, makes, moves or removes while it is on."""

    EVENTS = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink")

    def __init__(self) -> None:
        self.on, self.seen = False, list[str]()
        sys.addaudithook(self._hear)  # which cannot be taken back

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event in self.EVENTS and isinstance(arguments[0], str | bytes | Path):
            self.seen.append(str(arguments[0]))

    @contextmanager
    def only_in(self, *folders: Path) -> Iterator[None]:
        """Inside, nothing may be touched but these folders and Python's own code."""
        self.seen.clear()
        self.on = True
        try:
            yield
        finally:
            self.on = False
        code = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2] / "playground"]
        allowed = [*map(Path, folders), *code]
        outside = [path for path in self.seen if not any(Path(path).is_relative_to(folder) for folder in allowed)]
        assert outside == []
