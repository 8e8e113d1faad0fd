"""Mapping recipes: what a mapping is called, where it comes from, how many regions it makes of a wafer."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One mapping.

    ``regions``: a wafer is one region, or several that layers pass through, or what a search finds; or all wafers
    together are one that spans them (``span``); ``experts``: layers as with ``one``, and experts in one that spans.
    """

    name: str
    summary: str
    source: str
    regions: Literal["one", "several", "searched", "span", "experts"]


@cache
def recipes() -> dict[str, Recipe]:
    """The bundled recipes by name."""
    files = sorted((Path(__file__).parent / "recipes").glob("*.toml"))
    found = [Recipe(**tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]
    return {recipe.name: recipe for recipe in found}
