"""Readers of the free text in which measurements of services and on GPUs state their conditions.

On GPUs, the conditions are the GPU, the serving stack and its version, the parallelism, the weight
format, and the number of users. Examples are ``NVIDIA H100 SXM``, ``trtllm 1.2.0rc6.post2``, ``TP1
ADP8 EP8`` and ``int4_wo``.

For services, the conditions are the date, drafts (speculative decoding), the element type, lengths,
users and wafers. Examples are ``16-bit``, ``8k (launch limit)`` and ``n.d. (after 2025-12-30)``.
Each function documents what it assumes if a measurement does not state the condition.
"""

from __future__ import annotations

import re
from typing import Final

from wse.models.catalogue import origins
from wse.models.configs.config import bundled_spec
from wse.models.spec import ModelSpec
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.weights import FORMATS, WeightFormat
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import name_in, row_in, rows_of

LAST_PLAIN_MONTH: Final = "2024-09"
"""Last month in which services on wafers ran without speculative decoding.

The October 2024 release notes mention speculative decoding for the first time
(news.ycombinator.com, item 41942822)."""

NO_DRAFT, DRAFT, SILENT = "no", "yes", "silent"
"""Whether a measurement says that speculative decoding was off or on, or does not mention it."""

_MONTH: Final = re.compile(r"\b(20[0-9]{2})(?:-(0[1-9]|1[0-2]))?(?:-[0-9]{2})?\b")
_BITS: Final = re.compile(r"\b(4|8|16|32)[- ]?bits?\b")
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
    January. A string such as ``n.d. (after 2025-12-30)`` counts as a date.

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
        return bundled_spec(name).weight_type
    dtypes: list[str] = [row["name"] for words, row in rows_of("element_types") if words.search(precision)]
    if len(dtypes) == 1 and not _BITS.search(precision):
        return dtypes[0]
    bits = _BITS.findall(precision)
    return _TYPE_OF_BITS[bits[0]] if len(bits) == 1 and "/" not in precision else None


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
    """Convert a string such as "8" or "1,024" to a number of tokens, at least 1.

    Args:
        digits: The number, optionally with commas and a fraction.
        kilo: "k" if the number is in units of 1,024 tokens, else "".
    """
    return max(1, int(float(digits.replace(",", "")) * (1024 if kilo else 1)))


def count(cell: str) -> int | None:
    """Parse the positive integer in a cell, or return None for any other string."""
    return int(cell) or None if _COUNT.fullmatch(cell.strip()) else None


OLD: Final = "-2024"
"""Suffix of stack names with the constants of earlier versions."""

_VERSION: Final = re.compile(r"\b([0-9]{1,3})\.([0-9]{1,3})")
_DATED_MONTH: Final = re.compile(r"\b(20[0-9]{2}-[0-9]{2})")
_BENCHMARK_OF_2024: Final = "LLM-Inference-Bench"
"""Benchmark of October 2024 (arXiv 2411.00136), although its repository has a later date."""


def gpu_of(m: Measurement) -> str | None:
    """Return the name of the GPU on which a measurement was made, or None if unknown."""
    return name_in("gpus", m.text("system"))


def stack_of(m: Measurement) -> str | None:
    """Return the name of the serving stack whose constants apply to a measurement.

    Old versions of some software have a separate stack. Whether a version is old is decided by the
    stated version or, if none is stated, by the date of the measurement.

    Returns:
        The name of the stack, or None if the software is unknown.
    """
    framework = m.text("framework").lower()
    row = row_in("stacks", framework)
    if row is None:
        return None
    name: str = row["name"]
    return name + OLD if _is_older(m, framework, tuple(row["version"]), row["month"]) else name


def _is_older(m: Measurement, framework: str, version: tuple[int, int], month: str) -> bool:
    """Return whether a measurement's software is older than a given version.

    The version stated in the text decides or, without one, the date of the measurement. One
    benchmark of 2024 counts as older although its files have later dates.

    Args:
        m: The measurement.
        framework: Text with which the measurement identifies its software.
        version: Major and minor version number.
        month: Month of the given version, such as ``2025-03``. If empty, software without a stated
            version never counts as older.
    """
    version_match, month_match = _VERSION.search(framework), _DATED_MONTH.search(m.text("date"))
    if version_match:
        return (int(version_match[1]), int(version_match[2])) < version
    if _BENCHMARK_OF_2024 in m.source:
        return bool(month)
    return bool(month_match) and month_match[1] < month  # type: ignore[index]


def parallelism_of(m: Measurement) -> Parallelism | None:
    """Return how a model is distributed across GPUs, or None if the number of GPUs is not stated.

    ``ADP`` in the text stands for data-parallel attention. ``EP`` stands for expert parallelism, in
    which each expert is stored entirely on one GPU.
    """
    gpus, cut = count(m.text("chips")), m.text("parallelism")
    if gpus is None:
        return None
    return Parallelism(gpus=gpus, attention_by_data="ADP" in cut, whole_experts="EP" in cut)


def format_of(m: Measurement, spec: ModelSpec) -> WeightFormat | None:
    """Return the weight format stated by a measurement, or None if it is unknown.

    If ``nvfp4`` is stated for a model whose checkpoint has mxfp4 weights, the format is mxfp4.
    """
    name = name_in("weight_formats", m.text("precision").strip().lower())
    if name == "nvfp4" and spec.weight_type == "mxfp4":
        name = spec.weight_type
    return None if name is None else FORMATS[name]


MAX_USERS: Final = 2048
"""Number of users in flight when a benchmark sends as many requests as can be served, which is
TensorRT-LLM's default max_batch_size."""


def users_of(m: Measurement) -> int | None:
    """Return a measurement's number of concurrent users, or None if no single number is stated.

    The text ``max load`` stands for `MAX_USERS`.
    """
    load = m.text("batch_or_concurrency").strip().lower()
    return MAX_USERS if load == "max load" else count(load)
