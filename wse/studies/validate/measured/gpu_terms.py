"""Reader of the free text in which measurements on GPUs state their conditions.

The conditions are the GPU, the serving stack and its version, the parallelism, the weight format,
and the number of users. Examples are ``NVIDIA H100 SXM``, ``trtllm 1.2.0rc6.post2``, ``TP1 ADP8
EP8`` and ``int4_wo``.
"""

from __future__ import annotations

import re
from typing import Final

from wse.models.spec import ModelSpec
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.weights import FORMATS, WeightFormat
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.service_terms import count

_GPUS: Final = (
    ("gh200", re.compile(r"\bGH200\b")),
    ("gb200", re.compile(r"\bGB200\b")),
    ("b200", re.compile(r"\bB200\b")),
    ("h200", re.compile(r"\bH200\b")),
    ("h100", re.compile(r"\bH100\b")),
    ("a100-40gb", re.compile(r"\bA100\b.*(\b40 ?GB\b|Argonne)")),
    ("a100", re.compile(r"\bA100\b")),
)
"""GPUs and the words that identify them. The first match is used. Argonne's A100 GPUs are in
Polaris and have 40 GB."""

_STACKS: Final = (
    ("vllm", re.compile(r"\bvllm\b"), (0, 8), "2025-03"),
    ("trtllm", re.compile(r"\b(trtllm|tensorrt-llm)\b"), (1, 0), "2025-08"),
    ("sglang", re.compile(r"\bsglang\b"), (0, 0), ""),
    ("graph", re.compile(r"^graph$"), (0, 0), ""),
)
"""Serving stacks: name, identifying words, and the first version and month to which the current
constants apply.

vLLM has used its V1 engine by default since 0.8. TensorRT-LLM has run on PyTorch by default since
1.0."""

OLD: Final = "-2024"
"""Suffix of stack names with the constants of earlier versions."""

_VERSION: Final = re.compile(r"\b([0-9]{1,3})\.([0-9]{1,3})")
_MONTH: Final = re.compile(r"\b(20[0-9]{2}-[0-9]{2})")
_BENCHMARK_OF_2024: Final = "LLM-Inference-Bench"
"""Benchmark of October 2024 (arXiv 2411.00136), although its repository has a later date."""

_FORMATS: Final = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "fp8",
    "int8": "int8",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "int4_wo": "int4",
}


def gpu_of(m: Measurement) -> str | None:
    """Return the name of the GPU on which a measurement was made, or None if unknown."""
    return next((name for name, words in _GPUS if words.search(m.text("system"))), None)


def stack_of(m: Measurement) -> str | None:
    """Return the name of the serving stack whose constants apply to a measurement.

    Some stacks have separate constants for versions from 2024. The version stated in the
    measurement, or else its date, determines which constants apply.

    Returns:
        The name of the stack, or None if the software is unknown.
    """
    framework = m.text("framework").lower()
    for name, words, version, month in _STACKS:
        if words.search(framework):
            return name + OLD if _is_older(m, framework, version, month) else name
    return None


def _is_older(m: Measurement, framework: str, version: tuple[int, int], month: str) -> bool:
    """Return whether a measurement's software is older than a given version.

    Args:
        m: The measurement.
        framework: Text with which the measurement identifies its software.
        version: Major and minor version number.
        month: Month to compare with the date if no version is stated, such as ``2025-03``.
    """
    version_match, month_match = _VERSION.search(framework), _MONTH.search(m.text("date"))
    if version_match:
        return (int(version_match[1]), int(version_match[2])) < version
    if _BENCHMARK_OF_2024 in m.source:
        return bool(month)
    return bool(month_match) and month_match[1] < month  # type: ignore[index]


def parallelism_of(m: Measurement) -> Parallelism | None:
    """Return how a model is distributed over GPUs, or None if the number of GPUs is not stated.

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
    name = _FORMATS.get(m.text("precision").strip().lower())
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
