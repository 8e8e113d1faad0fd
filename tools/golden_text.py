"""Write goldens (reference outputs that tests compare with) as JSON files.

Each list of numbers is on one line, so a change of one list shows as one changed line in a diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NUMBERS = re.compile(r"\[\s+(-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*)\s+\]")


def golden_text(made: Any) -> str:
    """Return a golden as JSON text, with every list of numbers on one line.

    >>> print(golden_text({"ids": [1, 2.5, -3e-7]}), end="")
    {
     "ids": [1, 2.5, -3e-07]
    }
    """
    joined = NUMBERS.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", json.dumps(made, indent=1))
    return joined + "\n"


def write_goldens(folder: Path, names: Iterable[str], golden: Callable[[str], dict[str, Any]]) -> None:
    """Compute one golden per name, write it to NAME.json, and print its seed and token ids.

    Args:
        folder: Folder for the files. It is created if it does not exist.
        names: Names of the goldens.
        golden: Function that computes the golden of a name. The result has the keys "seed" and
            "cases", and each case has the key "ids" (generated token ids).
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        made = golden(name)
        (folder / f"{name}.json").write_text(golden_text(made), encoding="utf-8")
        print(f"{name}: seed {made['seed']}, {[case['ids'] for case in made['cases']]}")
