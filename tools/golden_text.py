"""How goldens are written: JSON with a list of numbers on one line, so that a changed value is a changed line."""

from __future__ import annotations

import json
import re
from typing import Any

NUMBERS = re.compile(r"\[\s+(-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*)\s+\]")


def golden_text(made: Any) -> str:
    """The text of a golden's file.

    >>> print(golden_text({"ids": [1, 2.5, -3e-7]}), end="")
    {
     "ids": [1, 2.5, -3e-07]
    }
    """
    joined = NUMBERS.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", json.dumps(made, indent=1))
    return joined + "\n"
