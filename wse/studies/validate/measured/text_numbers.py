"""Parse numbers, units and model names in the cells of measurements."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from wse.errors import BadMeasurements
from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import bundled_spec
from wse.models.spec import ModelSpec
from wse.studies.validate.plain_model import plain_model

LARGEST_NUMBER: Final = 10**12
"""Largest number that is read from a string. No size or time of a run exceeds it."""

_NUMBER: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+(\.[0-9]+)?|\.[0-9]+")


def read_number(text: str | None) -> float | None:
    """Convert a string to a number, or return None if it is not a number up to `LARGEST_NUMBER`.

    Commas may separate groups of three digits. A comma or full stop at the end is ignored.

    >>> read_number("1,024."), read_number("1.2.3"), read_number(",")
    (1024.0, None, None)
    """
    number = (text or "").strip().rstrip(",.")
    if len(number) > 40 or not _NUMBER.fullmatch(number):
        return None
    value = float(number.replace(",", ""))
    return value if value <= LARGEST_NUMBER else None


def read_whole(text: str | None) -> int | None:
    """Convert a string to an integer, or return None if it is not one up to `LARGEST_NUMBER`.

    >>> read_whole("8192,"), read_whole("1.5")
    (8192, None)
    """
    value = read_number(text)
    return int(value) if value is not None and value == int(value) else None


_UNIT: Final = re.compile(
    r"cycles?|[mµun]?s|seconds?|[kmg]?hz|[mgtp]?flops?|[kmgtp]?i?b|[mgtp]bps|bits?|[mgtp]bit|bytes?|[km]?w|watts?|j|joules?"
    r"|tok|tokens?|usd|percent|%|x|ratio|speedup|gain|growth|fraction|efficiency|slowdown|(under)?utilisation"
    r"|exponent|coefficient|elements?|wavelets?|words?|hops?|turns?|steps?|cores?|chips?|nodes?|wafers?|degree|length"
)
"""Lower-case words that name a unit or a count. Every metric contains at least one such word."""

_TIMED_CYCLES: Final = re.compile(r"(mean_|max_|min_|median_)?cycles( \((median|mean|max|min)( over PEs)?\))?")


def check_unit(metric: str, place: str) -> None:
    """Check that a metric such as ``tokens_per_s`` contains the name of a unit.

    Args:
        metric: Text of the column ``metric``.
        place: File, line and column, for the error message.

    Raises:
        BadMeasurements: The metric contains no known unit.
    """
    if not any(_UNIT.fullmatch(word) for word in re.findall(r"[^\W\d_]+|%", metric.lower())):
        examples = "cycles, us, ms, tokens_per_s, elements/cycle, speedup, %"
        raise BadMeasurements(f"{place} = {metric[:40]!r}: names no known unit; give one such as {examples}")


SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def convert_cycles(metric: str, cycles: float, clock_hz: float) -> float | None:
    """Convert the duration of a whole timed run from cycles to the unit of a metric.

    Args:
        metric: Text of the column ``metric`` of a measurement.
        cycles: Duration in cycles.
        clock_hz: Clock frequency of the wafer.

    Returns:
        The duration in cycles or in the metric's time unit; None if the metric has neither unit.

    >>> convert_cycles("us", 850, 850e6), convert_cycles("mean_cycles", 850, 850e6)
    (1.0, 850)
    >>> convert_cycles("cycles per hop", 1, 850e6) is None
    True
    """
    if is_cycles(metric):
        return cycles
    unit = SECONDS.get(metric.strip())
    return None if unit is None else cycles / clock_hz / unit


def is_cycles(metric: str) -> bool:
    """Return whether a metric is the duration of a whole timed run in cycles.

    Means, medians, minima and maxima over PEs or repetitions count too. Rates such as cycles per
    hop do not.

    >>> is_cycles("mean_cycles"), is_cycles("cycles (median)"), is_cycles("cycles per hop")
    (True, True, False)
    """
    return _TIMED_CYCLES.fullmatch(metric.strip()) is not None


def one_head_model(text: str) -> ModelSpec | None:
    """Return a model with a single head, and the number and sizes of layers of a named model.

    The benchmark programs of WaferLLM have such layers. The string is the name of the model, or
    ends with it. The result is None if the model is unknown, has experts, or has feed-forward
    blocks without a gate.

    >>> model = one_head_model("decode LLaMA3-8B")
    >>> model.hidden_size, model.ffn_size, model.layer_count, model.head_size
    (4096, 14336, 32, 4096)
    """
    name = configuration_of(text)
    spec = None if name is None else bundled_spec(name)
    if spec is None or spec.experts is not None or not spec.gated:
        return None
    return plain_model(layers=spec.layer_count, hidden_size=spec.hidden_size, ffn_size=spec.ffn_size)


@cache
def dense_model(name: str) -> ModelSpec | None:
    """Return the bundled model of a name if it is dense, with standard attention and gated blocks.

    >>> dense_model("Qwen3-4B").layer_count
    36
    """
    configuration = re.sub(r"[\s_]", "-", name.strip().lower()).replace("qwen-3", "qwen3")
    if configuration not in CONFIGURATIONS:
        return None
    spec = bundled_spec(configuration)
    return None if spec.experts is not None or spec.latent is not None or not spec.gated else spec


def configuration_of(text: str) -> str | None:
    """Return the name of the bundled configuration for the model named in a string.

    The string is the name of the model, or ends with it. Case, spaces, punctuation, and words such
    as ``instruct`` and ``chat`` are ignored. Models with identical layers share a configuration. If
    several names match, the longest name is used. The result is None if no name matches.

    >>> configuration_of("Llama-3.1-8B-Instruct")
    'llama-3-8b'
    """
    name = _plain(re.sub(r"[-_ ](instruct|chat|hf|base)\b", "", text, flags=re.IGNORECASE))
    matches = [(len(published), config) for published, config in _published_names() if name.endswith(published)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


@cache
def _published_names() -> tuple[tuple[str, str], ...]:
    """Return (published name, bundled configuration name) for each known model.

    Published names are reduced to lower-case letters and digits, so that different spellings match.
    """
    return tuple(
        (_plain(published), name) for name, origin in origins().items() for published in (name, *origin.same_shape)
    )


def _plain(name: str) -> str:
    """Return only the letters and digits of a name, in lower case, for comparisons."""
    return "".join(c for c in name.lower() if c.isalnum())
