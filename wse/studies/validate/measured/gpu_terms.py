"""Terms of rows about GPUs: the GPU, the serving stack and its version, how the model is cut, formats and users.

Sources write these freely (``NVIDIA H100 SXM``, ``trtllm 1.2.0rc6.post2``, ``TP1 ADP8 EP8``, ``int4_wo``).
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
"""The first that a system's name has is meant. Argonne's A100 are those of Polaris, of 40 GB."""

_STACKS: Final = (
    ("vllm", re.compile(r"\bvllm\b"), (0, 8), "2025-03"),
    ("trtllm", re.compile(r"\b(trtllm|tensorrt-llm)\b"), (1, 0), "2025-08"),
    ("sglang", re.compile(r"\bsglang\b"), (0, 0), ""),
    ("graph", re.compile(r"^graph$"), (0, 0), ""),
)
"""Stacks, the words for them, and from which version and month on the constants are those of the present one: vLLM
has its engine V1 by default from 0.8 on; TensorRT-LLM runs on PyTorch by default from 1.0 on."""

OLD: Final = "-2024"
"""Suffix of the names of stacks from before that date."""

_VERSION: Final = re.compile(r"\b([0-9]{1,3})\.([0-9]{1,3})")
_MONTH: Final = re.compile(r"\b(20[0-9]{2}-[0-9]{2})")
_BENCHMARK_OF_2024: Final = "LLM-Inference-Bench"
"""Published in October 2024 (arXiv 2411.00136); its repository is dated later."""

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
    """Return the preset of the GPU that a row was measured on; None for others."""
    return next((name for name, words in _GPUS if words.search(m.text("system"))), None)


def stack_of(m: Measurement) -> str | None:
    """Return the stack whose constants apply to a row, by its version, or its date where it gives none.

    None for others.
    """
    framework = m.text("framework").lower()
    for name, words, version, month in _STACKS:
        if words.search(framework):
            return name + OLD if _is_older(m, framework, version, month) else name
    return None


def _is_older(m: Measurement, framework: str, version: tuple[int, int], month: str) -> bool:
    stated, dated = _VERSION.search(framework), _MONTH.search(m.text("date"))
    if stated:
        return (int(stated[1]), int(stated[2])) < version
    if _BENCHMARK_OF_2024 in m.source:
        return bool(month)
    return bool(dated) and dated[1] < month  # type: ignore[index]


def parallelism_of(m: Measurement) -> Parallelism | None:
    """Return the GPUs of a row and how the model is cut; None where it does not say how many there are.

    ``ADP`` is attention by data; ``EP`` experts that are whole on a GPU.
    """
    gpus, cut = count(m.text("chips")), m.text("parallelism")
    if gpus is None:
        return None
    return Parallelism(gpus=gpus, attention_by_data="ADP" in cut, whole_experts="EP" in cut)


def format_of(m: Measurement, spec: ModelSpec) -> WeightFormat | None:
    """Return the format of a row's weights; that of the checkpoint where both are floats of 4 bits. None for others."""
    name = _FORMATS.get(m.text("precision").strip().lower())
    if name == "nvfp4" and spec.weight_type == "mxfp4":
        name = spec.weight_type
    return None if name is None else FORMATS[name]


MOST_USERS: Final = 2048
"""Users of a pass where as many come as can be served: TensorRT-LLM's max_batch_size, by default."""


def users_of(m: Measurement) -> int | None:
    """Users at the same time, where a row gives one number of them, or as many as can be served."""
    load = m.text("batch_or_concurrency").strip().lower()
    return MOST_USERS if load == "max load" else count(load)
