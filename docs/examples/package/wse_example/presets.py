"""Presets: files with a wafer, a software profile, a GPU and a serving stack."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
WAFER: Final = _HERE / "quarter.toml"
SOFTWARE: Final = _HERE / "compact.toml"
GPU: Final = _HERE / "slow-memory.toml"
STACK: Final = _HERE / "eager.toml"
