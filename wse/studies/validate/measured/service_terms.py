"""Reader of the free text in which measurements of services state their conditions.

The conditions are the date, drafts (speculative decoding), the element type, lengths, users and
wafers. Examples are ``16-bit``, ``8k (launch limit)`` and ``n.d. (after 2025-12-30)``. Each
function documents what it assumes if a measurement does not state the condition.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import read_config
from wse.studies.validate.measured.measurements import Measurement

LAST_PLAIN_MONTH: Final = "2024-09"
"""Last month in which services on wafers ran without speculative decoding.

The October 2024 release notes mention speculative decoding for the first time
(news.ycombinator.com, item 41942822)."""

NO_DRAFT, DRAFT, SILENT = "no", "yes", "silent"
"""Whether a measurement states that speculative decoding was off or on, or states nothing."""

_MONTH: Final = re.compile(r"\b(20[0-9]{2})(?:-(0[1-9]|1[0-2]))?(?:-[0-9]{2})?\b")
_BITS: Final = re.compile(r"\b(4|8|16|32)[- ]?bits?\b")
_TYPES: Final = (
    ("fp8", re.compile(r"\b(fp8|f8|e4m3)\b")),
    ("int8", re.compile(r"\b(int8|w8a8|w8a16)\b")),
    ("mxfp4", re.compile(r"\bmxfp4\b")),
    ("int4", re.compile(r"\b(int4|fp4|nvfp4|w4a16|w4a8)\b")),
    ("float16", re.compile(r"\b(fp16|float16|half)\b")),
    ("bfloat16", re.compile(r"\b(bf16|bfloat16)\b")),
    ("float32", re.compile(r"\b(fp32|float32)\b")),
)
_TYPE_OF_BITS: Final = {"4": "int4", "8": "fp8", "16": "bfloat16", "32": "float32"}
_SIZE: Final = r"([0-9][0-9,]*(?:\.[0-9]+)?)\s*(k?)\b"
_BOTH: Final = re.compile(_SIZE + r"\s*(?:in)?\s*/\s*" + _SIZE, re.IGNORECASE)
_ONE: Final = re.compile(_SIZE, re.IGNORECASE)
_COUNT: Final = re.compile(r"[0-9]{1,9}")


def drafts(m: Measurement) -> str:
    """Return whether a service used speculative decoding: ``yes``, ``no`` or ``silent``.

    ``silent`` means that the measurement does not say.
    """
    answer = re.match(r"\s*(yes|no)\b", m.text("spec_decode"), re.IGNORECASE)
    return SILENT if answer is None else {"yes": DRAFT, "no": NO_DRAFT}[answer[1].lower()]


def earliest_month(m: Measurement, name: str) -> str:
    """Return the earliest month in which a measurement could have been made, such as ``2025-12``.

    This is the later of the stated date and the model's release. A year without a month counts as
    January. A text such as ``n.d. (after 2025-12-30)`` counts as a date.

    Args:
        m: The measurement.
        name: Name of the bundled configuration of the model.
    """
    month_match = _MONTH.search(m.text("date"))
    month = f"{month_match[1]}-{month_match[2] or '01'}" if month_match else ""
    return max(month, origins()[name].released)


def with_drafts(m: Measurement, name: str) -> bool:
    """Return whether to assume speculative decoding when predicting a service measurement.

    Speculative decoding is assumed if the measurement states that it was used. If the measurement
    says nothing, it is assumed after `LAST_PLAIN_MONTH`.

    Args:
        m: The measurement.
        name: Name of the bundled configuration of the model.
    """
    stated_drafts = drafts(m)
    return stated_drafts == DRAFT or (stated_drafts == SILENT and earliest_month(m, name) > LAST_PLAIN_MONTH)


def element_type(m: Measurement, name: str) -> str | None:
    """Return the element type of the weights stated in a measurement.

    A number of bits denotes a type: 32 for float32, 16 for bfloat16, 8 for fp8, 4 for int4.

    Args:
        m: The measurement.
        name: Name of the bundled configuration of the model.

    Returns:
        The stated type, or the type of the published weights if none is stated. None if the text
        does not name exactly one known type.
    """
    precision = m.text("precision").strip().lower()
    if not precision:
        return _published_type(name)
    dtypes = [dtype for dtype, words in _TYPES if words.search(precision)]
    if len(dtypes) == 1 and not _BITS.search(precision):
        return dtypes[0]
    bits = _BITS.findall(precision)
    return _TYPE_OF_BITS[bits[0]] if len(bits) == 1 and "/" not in precision else None


@cache
def _published_type(name: str) -> str:
    return read_config(CONFIGURATIONS[name]).weight_type


def lengths(m: Measurement) -> tuple[int | None, int | None, int | None]:
    """Return the prompt, answer and context lengths in tokens, each None if not stated.

    Two numbers, such as ``1024 in / 1024 out`` or ``1k/1k``, are the prompt and answer lengths. A
    single number is the context length, which is the maximum number of tokens per user. 1k is
    1,024.
    """
    context = m.text("context")
    pair = _BOTH.search(context)
    if pair:
        return _size(pair[1], pair[2]), _size(pair[3], pair[4]), None
    single = _ONE.search(context)
    return None, None, _size(single[1], single[2]) if single else None


def _size(digits: str, kilo: str) -> int:
    """Convert a text such as "8" or "1,024" to a number of tokens, at least 1.

    Args:
        digits: The number, optionally with commas and a fraction.
        kilo: "k" if the number is in units of 1,024 tokens, else "".
    """
    return max(1, int(float(digits.replace(",", "")) * (1024 if kilo else 1)))


def count(cell: str) -> int | None:
    """Parse the positive integer in a cell, or return None for any other text."""
    return int(cell) or None if _COUNT.fullmatch(cell.strip()) else None
