"""Plain JSON values back into typed dataclasses, with sentences for what does not fit.

`Annotated[kind, allowed]` admits only values of the kind that are `in` the allowed ones.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from playground.errors import UserError

JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds of a number, for `Annotated`; `high` is the greatest whole number that JavaScript holds exactly."""

    low: float
    high: float = 2**53 - 1

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"from {self.low:,} to {self.high:,}"


def decode_value(kind: type[T], value: object, where: str) -> T:
    """`value`, as parsed from JSON, checked and turned into `kind`. Raises UserError that names the place."""
    return _decode(kind, value, where)  # type: ignore[no-any-return]


def _decode(kind: Any, value: object, where: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = _decode(args[0], value, where)
        if found not in args[1]:
            raise UserError(f"{where} holds {_short(value)}, where {_name(kind)} belongs.")
        return found
    if origin in (Union, UnionType):
        return _decode_union(args, value, where)
    if origin is list and isinstance(value, list):
        return [_decode(args[0], item, f"{where}[{at}]") for at, item in enumerate(value)]
    if origin is tuple and isinstance(value, list) and len(value) == len(args):
        return tuple(
            _decode(arg, item, f"{where}[{at}]") for at, (arg, item) in enumerate(zip(args, value, strict=True))
        )
    if origin is dict and isinstance(value, dict):
        return {
            _decode_key(args[0], key, where): _decode(args[1], item, f"{where}.{key}") for key, item in value.items()
        }
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _decode_dataclass(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str) and value in set(kind):
        return kind(value)
    if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    if kind in (int, str, bool) and type(value) is kind:
        return value
    if kind is None or kind is type(None):
        if value is None:
            return None
    elif kind is JSON or isinstance(kind, str) or _is_json_alias(kind):
        return value
    raise UserError(f"{where} holds {_short(value)}, where {_name(kind)} belongs.")


def _is_json_alias(kind: Any) -> bool:
    return getattr(kind, "__forward_arg__", "").startswith("None | bool")


def _decode_union(args: tuple[Any, ...], value: object, where: str) -> Any:
    for arg in args:
        try:
            return _decode(arg, value, where)
        except UserError:
            continue
    raise UserError(f"{where} holds {_short(value)}, where {' or '.join(map(_name, args))} belongs.")


def _decode_key(kind: Any, key: str, where: str) -> Any:
    if kind is str:
        return key
    try:
        number = int(key)
    except ValueError as error:
        raise UserError(f"{where} has the key {_short(key)}, where a whole number belongs.") from error
    return _decode(kind, number, f"{where}, key")


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _decode_dataclass(kind: type, value: dict[str, object], where: str) -> Any:
    known = {item.name: item for item in fields(kind)}
    for key in value:
        if key not in known:
            raise UserError(f"{where} has a field {_short(key)} that this version does not know.")
    for name, item in known.items():
        if name not in value and item.default is MISSING and item.default_factory is MISSING:
            raise UserError(f"{where} lacks the field '{name}'.")
    hints = _hints(kind)
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _name(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        of, allowed = get_args(kind)
        return f"{_name(of)} {allowed if isinstance(allowed, Between) else 'of ' + ', '.join(allowed)}"
    return str(getattr(kind, "__name__", kind)) if get_origin(kind) is None else str(kind)
