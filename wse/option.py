"""Description of an option, from which the command line and the Python API are built.

Fields of requests are annotated with it. `wse.studies.options.option` reads the annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Panel = Literal[
    "",
    "Model",
    "Wafer and mapping",
    "GPUs",
    "Prompt",
    "Serving",
    "Sampling",
    "Drafts",
    "Trace",
    "Options",
    "Machines",
    "Output",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Description of an option of the command line and of the same argument in Python.

    Use named functions in annotations. A lambda that is written there cannot see the names of its
    module.

    Attributes:
        doc: Help text of one or two lines. If empty, it is the description of the field in the
            docstring of its class.
        panel: Heading of the help page under which the option is listed. If empty, it is the
            ``PANEL`` of the class with the option, or "Options".
        metavar: Form of the value, such as ``ROWSxCOLS``. If empty, it is ``TOKENS`` or ``TIME``
            for numbers in these units, and ``N`` for other whole numbers. Flags have none.
        none: Word that means None on the command line, such as ``auto``. If empty, None cannot be
            given explicitly.
        repeats: Whether the option may be given several times. The field then contains a tuple of
            all values.
        read: Function that converts a string to the field's value and raises BadInput. None
            converts by the type of the field.
        unit: Unit of the number: "token" (k is then 1,024) or the unit of a measured quantity, such
            as "s". A string that gives a time must have a unit; other strings without a unit are in
            this unit. Empty for counts, rates and fractions.
        known_values: Names for completion, or a function that returns them. If empty, the names are
            taken from ``metavar`` if it lists them, as in ``refuse|report``.
        short: One-letter spelling, such as ``-o``.
        positional: Whether the value is given by position, without the name of the option.
        flag: Long name of the option if it differs from the name of the field.
        required: Whether the command line requires the option even though the field has a default.
    """

    doc: str = ""
    panel: Panel = ""
    metavar: str = ""
    none: str = ""
    repeats: bool = False
    read: Callable[[str], Any] | None = None
    unit: str = ""
    known_values: Callable[[], Iterable[str]] | tuple[str, ...] = ()
    short: str = ""
    flag: str = ""
    positional: bool = False
    required: bool = False
