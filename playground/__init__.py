"""Speculative Decoding Playground: see and measure speculative decoding on real models."""

import tomllib
from pathlib import Path

# The playground runs from its own folder, where pyproject.toml says which version it is.
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
__version__: str = _PROJECT["project"]["version"]
