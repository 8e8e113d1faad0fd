"""How goldens are written: JSON with a list of numbers on one line, so that a changed value is a changed line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NUMBERS = re.compile(r"\[\s+(-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*)\s+\]")


def golden_text(made: Any) -> str:
    """Return the text of a golden's file.

    >>> print(golden_text({"ids": [1, 2.5, -3e-7]}), end="")
    {
     "ids": [1, 2.5, -3e-07]
    }
    """
    joined = NUMBERS.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", json.dumps(made, indent=1))
    return joined + "\n"


def write_goldens(folder: Path, names: Iterable[str], golden: Callable[[str], dict[str, Any]]) -> None:
    """Make the golden of each name, write it as NAME.json, and tell its seed and the tokens of its cases."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        made = golden(name)
        (folder / f"{name}.json").write_text(golden_text(made), encoding="utf-8")
        print(f"{name}: seed {made['seed']}, {[case['ids'] for case in made['cases']]}")
