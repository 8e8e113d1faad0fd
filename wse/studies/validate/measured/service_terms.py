"""Terms of rows about services: the date, drafts, the element type, lengths, users and wafers.

Sources write these freely (``16-bit``, ``8k (launch limit)``, ``n.d. (after 2025-12-30)``). What a row does not say has
one rule, which stands where it is followed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import read_config
from wse.studies.validate.measured.measurements import Measurement

LAST_PLAIN_MONTH: Final = "2024-09"
"""Until then services on wafers were silent about drafts because there were none: speculative decoding came to them
with the release of October 2024, whose notes (news.ycombinator.com, item 41942822) name it."""

NO_DRAFT, DRAFT, SILENT = "no", "yes", "silent"
"""A row's word on speculative decoding."""

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
_OF_BITS: Final = {"4": "int4", "8": "fp8", "16": "bfloat16", "32": "float32"}
_SIZE: Final = r"([0-9][0-9,]*(?:\.[0-9]+)?)\s*(k?)\b"
_BOTH: Final = re.compile(_SIZE + r"\s*(?:in)?\s*/\s*" + _SIZE, re.IGNORECASE)
_ONE: Final = re.compile(_SIZE, re.IGNORECASE)
_COUNT: Final = re.compile(r"[0-9]{1,9}")


def drafts(m: Measurement) -> str:
    """``yes``, ``no`` or ``silent``: what the row says of speculative decoding. ``not stated`` is silent."""
    said = re.match(r"\s*(yes|no)\b", m.text("spec_decode"), re.IGNORECASE)
    return SILENT if said is None else {"yes": DRAFT, "no": NO_DRAFT}[said[1].lower()]


def earliest_month(m: Measurement, name: str) -> str:
    """``2025-12``: a row is not older than its model, whose configuration is ``name``, nor than the date it gives.

    A year alone is its first month. ``n.d. (after 2025-12-30)`` is dated.
    """
    dated = _MONTH.search(m.text("date"))
    return max(f"{dated[1]}-{dated[2] or '01'}" if dated else "", origins()[name].released)


def with_drafts(m: Measurement, name: str) -> bool:
    """Return whether a row is predicted with drafts: it says so, or says nothing and is later than LAST_PLAIN_MONTH."""
    said = drafts(m)
    return said == DRAFT or (said == SILENT and earliest_month(m, name) > LAST_PLAIN_MONTH)


def element_type(m: Measurement, name: str) -> str | None:
    """Return the type of weights that a row states, by default that of the published weights; None for others.

    A number of bits stands for one type: 16 for bfloat16, 8 for fp8, 4 for int4.
    """
    said = m.text("precision").strip().lower()
    if not said:
        return _published_type(name)
    dtypes = [dtype for dtype, words in _TYPES if words.search(said)]
    if len(dtypes) == 1 and not _BITS.search(said):
        return dtypes[0]
    bits = _BITS.findall(said)
    return _OF_BITS[bits[0]] if len(bits) == 1 and "/" not in said else None


@cache
def _published_type(name: str) -> str:
    return read_config(CONFIGURATIONS[name]).weight_type


def lengths(m: Measurement) -> tuple[int | None, int | None, int | None]:
    """Return the tokens of the prompt, of the answer, and of a user's cache, None for what the row does not say.

    ``1024 in / 1024 out`` and ``1k/1k`` are prompt and answer, one number is the most tokens that a user may have.
    1k is 1,024.
    """
    context = m.text("context")
    pair = _BOTH.search(context)
    if pair:
        return _size(pair[1], pair[2]), _size(pair[3], pair[4]), None
    single = _ONE.search(context)
    return None, None, _size(single[1], single[2]) if single else None


def _size(digits: str, kilo: str) -> int:
    return max(1, int(float(digits.replace(",", "")) * (1024 if kilo else 1)))


def count(cell: str) -> int | None:
    """Return a cell's whole number of at least 1; None for anything else."""
    return int(cell) or None if _COUNT.fullmatch(cell.strip()) else None
