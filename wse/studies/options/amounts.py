"""Conversion of the texts of options to numbers, such as ``128k`` or ``200ms``, and checks of counts."""

from __future__ import annotations

from typing import Final

from wse.errors import BadInput
from wse.hardware.quantity import COUNT, TOKEN, has_unit, is_time, read_quantity, whole_number

_EXAMPLES: Final = {
    "s": "200ms or 0.2s",
    "µs": "5us or 500ns",
    "GB/s": "150GB/s or 2.4TB/s",
    "GB": "512GB or 4TB",
    COUNT: "8",
    "": "0.8 or 10k",
    TOKEN: "4096 or 128k",
}
"""Example values for error messages, by the unit of an option; "" is a number without a unit."""


def read_count(flag: str, text: str, unit: str, *, none_word: str) -> int:
    """Convert the text of an option, such as ``--new-tokens 4k``, to a whole number.

    Args:
        flag: Name of the option, for messages.
        text: Text to convert.
        unit: `TOKEN` for a number of tokens, in which k is 1,024, or `COUNT` for any other number,
            in which k is 1,000.
        none_word: Word that the option accepts instead of a number, for messages; empty if there
            is none.

    Raises:
        BadInput: The string is not a whole number.
    """
    number = whole_number(text, unit)
    if number is None:
        tokens, other_word = " of tokens" * (unit == TOKEN), f", or {none_word}" if none_word else ""
        raise BadInput(f"{flag} {text!r}: give a whole number{tokens}, such as {_EXAMPLES[unit]}{other_word}")
    return number


def read_amount(flag: str, text: str, unit: str) -> float:
    """Convert the text of an option, such as ``--ttft 200ms`` or ``--rate 1k``, to a number.

    Args:
        flag: Name of the option, for messages.
        text: Text to convert.
        unit: Unit of the result.

    Raises:
        BadInput: The string is not a number with a suitable unit, or is a time other than 0 without
            a unit. A unit is required because a user who writes ``--ttft 200`` may mean
            milliseconds.
    """
    number = read_quantity(text, unit)
    if number is None:
        with_unit = " with its unit" if unit else ""
        raise BadInput(f"{flag} {text!r}: give a number{with_unit}, such as {_EXAMPLES[unit]}")
    if is_time(unit) and number and not has_unit(text):
        raise BadInput(f"{flag} {text!r}: give a unit, such as {_EXAMPLES[unit]}")
    return float(number)


def check_counts(**counts: int | None) -> None:
    """Raise BadInput if the value of an option is below 1.

    Args:
        counts: Values, keyed by the long name of the option with underscores. None means that the
            option is not given, and is always allowed.
    """
    for name, value in counts.items():
        if value is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value}: give a number of at least 1")
