"""PatternRequest: the options of the command ``wse pattern``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from wse.errors import BadInput
from wse.hardware.quantity import COUNT, whole_number
from wse.option import Option
from wse.studies.options import known_names
from wse.studies.options.option import OptionsOf
from wse.studies.options.placement import MachineOptions

REDUCES: Final = ("chain", "star", "binary_tree", "two_phase", "auto_gen", "k_tree")
"""The patterns to compare by default."""
PES: Final = (64,)
WORDS: Final = (1, 64, 1024)
LONGEST_LINE: Final = 2_000
MAX_WORDS: Final = 1_000_000
MAX_CASES: Final = 2_000


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise BadInput(
            f"{text!r}: give names of patterns with commas between them, such as chain,two_phase,mine.py:mine"
        )
    return names


def _counts(flag: str, text: str) -> tuple[int, ...]:
    numbers = [whole_number(part, COUNT) for part in text.split(",")]
    if None in numbers:
        raise BadInput(f"{flag} {text!r}: give whole numbers with commas between them, such as 64,750")
    return tuple(number for number in numbers if number is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRequest:
    """Options of ``wse pattern``, which compares communication patterns on lines of PEs.

    A pattern is a way of moving words along a line, such as a chain or a tree.

    Attributes:
        patterns: Names such as chain, chain_multicast or two_phase@8, in groups of 8; and patterns
            of your own as FILE.py:NAME, a file that is executed as a program. Default: the reduces.
        pes: Numbers of PEs on the line. Default: 64.
        words: Numbers of 32-bit words per PE. Default: 1, 64, 1024.
        wavelet: Also simulate every case cycle by cycle, and check the words that arrive.
    """

    patterns: Annotated[
        tuple[str | Callable[..., Any], ...] | None,
        Option(metavar="PATTERN,...", read=_names, known_values=known_names.patterns, positional=True),
    ] = None
    pes: Annotated[tuple[int, ...] | None, Option(metavar="64,750", read=partial(_counts, "--pes"))] = None
    words: Annotated[tuple[int, ...] | None, Option(metavar="1,1024", read=partial(_counts, "--words"))] = None
    machine: Annotated[MachineOptions, OptionsOf(without=("mesh", "link", "defects", "defects_seed"))] = field(
        default_factory=MachineOptions
    )
    wavelet: Annotated[bool, Option()] = False

    def cases(self) -> tuple[tuple[str | Callable[..., Any], ...], tuple[int, ...], tuple[int, ...]]:
        """Return the patterns, line lengths and words per PE to compare.

        Defaults are filled in. All combinations of the three are compared.

        Raises:
            BadInput: A number is out of range, or there are too many combinations.
        """
        patterns, pes, words = self.patterns or REDUCES, self.pes or PES, self.words or WORDS
        for flag, numbers, min_value, max_value in (("--pes", pes, 2, LONGEST_LINE), ("--words", words, 1, MAX_WORDS)):
            for number in numbers:
                if not min_value <= number <= max_value:
                    raise BadInput(f"{flag} {number}: give numbers from {min_value} to {max_value:,}")
        cases = len(patterns) * len(pes) * len(words)
        if cases > MAX_CASES:
            raise BadInput(f"{cases:,} cases of patterns, PEs and words: give at most {MAX_CASES:,}")
        return patterns, pes, words
