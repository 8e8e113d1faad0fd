"""Predictor of serving benchmarks on GPUs, based on the pass model in `wse.serving.gpus`.

A new user starts as soon as another one has finished (closed loop), so prompts are processed while
other users decode. In LLM-Inference-Bench, by contrast, all users start together, and all prompts
are read first. Users whose KV caches do not fit wait until others have finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from wse.errors import DoesNotFit
from wse.models.configs.config import bundled_spec
from wse.models.spec import ModelSpec
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism, Roofline, Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.spec import StackSpec
from wse.serving.gpus.weights import FORMATS
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.terms import (
    NO_DRAFT,
    drafts,
    format_of,
    gpu_of,
    lengths,
    parallelism_of,
    stack_of,
    users_of,
)
from wse.studies.validate.predictors.prediction import Declined, Prediction, require, stated_configuration

METHOD: Final = "GPU model"

TIMES_MS: Final = ("tpot_ms", "itl_ms")
"""Metrics that depend on decode passes only. Rates also depend on the time to first token."""
VERIFY_MS: Final = "verify_ms"
"""Metric of a verification pass. The two lengths in its context are the numbers of cached and new
tokens per user."""
RATES: Final = ("system_output_tok_s", "output_tok_s_per_gpu", "output_tok_s_per_user")
METRICS: Final = (*TIMES_MS, *RATES, "ttft_ms", VERIFY_MS)
MS_PER_S: Final = 1e3
BARE: Final = "graph"
"""Stack for benchmarks that time only decode passes, without prompts between them."""
_ALL_AT_ONCE: Final = "LLM-Inference-Bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow:
    """Conditions of a serving benchmark on GPUs.

    Attributes:
        model: Name of the bundled configuration.
        weights: Name of the number format of the weights.
        gpu: Name of the GPU.
        stack: Name of the serving stack (software that serves models).
        parallelism: How the model is distributed across GPUs.
        users: Number of users in flight.
        prompt: Number of tokens per prompt.
        new: Number of tokens generated per user.
        begin_together: Whether all users start simultaneously.
    """

    model: str
    weights: str
    gpu: str
    stack: str
    parallelism: Parallelism
    users: int
    prompt: int
    new: int
    begin_together: bool

    @property
    def spec(self) -> ModelSpec:
        """Specification of the model."""
        return bundled_spec(self.model)


def predict(m: Measurement) -> Prediction | None:
    """Predict a time or rate of a serving benchmark on GPUs.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    row = serving_row(m)
    if row is None:
        return None
    try:
        stack = load_stack(row.stack, load_gpu(row.gpu).generation)
        return Prediction(value=value_of(row, m.text("metric").strip(), stack), method=METHOD, software=row.stack)
    except DoesNotFit as error:
        raise Declined(f"wse estimate refuses it: {str(error).partition(';')[0]}") from error


def serving_row(m: Measurement) -> ServingRow | None:
    """Parse the conditions of a serving benchmark on GPUs from the cells of its row.

    Returns:
        The conditions. None if something else was measured.

    Raises:
        Declined: The conditions are not all known.
    """
    metric = m.text("metric").strip()
    if m.table != "gpu":
        return None
    if metric not in METRICS:
        raise Declined("a property of a GPU, of drafts or a power, not the time or rate of a run")
    name = stated_configuration(m)
    gpu = require(gpu_of(m), "the row does not state a known GPU and the number of GPUs")
    parallelism = require(parallelism_of(m), "the row does not state a known GPU and the number of GPUs")
    stack = require(stack_of(m), "no constants were fitted for the software that served the model")
    weights = require(format_of(m, bundled_spec(name)), "the element type of the weights is unknown for GPUs")
    prompt, new, _ = lengths(m)
    if prompt is None or new is None:
        raise Declined("the row does not state the tokens of prompts and answers")
    users = require(users_of(m), "the row does not state a single number of users")
    drafts_text = m.text("spec_decode").strip().lower()
    if drafts(m) != NO_DRAFT and drafts_text not in ("", "not recorded"):
        raise Declined("drafts were used, and the row does not state their acceptance")
    if metric == "ttft_ms" and users > 1:
        raise Declined("includes the time that prompts wait for each other, which depends on how the benchmark starts")
    return ServingRow(
        model=name,
        weights=weights.name,
        gpu=gpu,
        stack=stack,
        parallelism=parallelism,
        users=users,
        prompt=prompt,
        new=new,
        begin_together=_ALL_AT_ONCE in m.source or stack == BARE,
    )


def value_of(row: ServingRow, metric: str, stack: StackSpec) -> float:
    """Predict the value of a metric of a serving benchmark.

    Args:
        row: The conditions of the benchmark.
        metric: One of `METRICS`.
        stack: Constants of the serving stack.

    Returns:
        The value in milliseconds or tokens per second, depending on the metric.

    Raises:
        DoesNotFit: The weights or the KV cache of one user do not fit in the GPUs' memory.
    """
    load = _load(row, stack.memory_ratio)
    if metric == "ttft_ms":
        return MS_PER_S * load.read_s(stack, users=1)
    if metric == VERIFY_MS:
        tokens = Tokens(users=row.users, new=row.new, context=row.prompt)
        return MS_PER_S * load.seconds(load.server.roofline([tokens]), stack)
    pass_s = load.pass_s(stack)
    if metric in TIMES_MS:
        return MS_PER_S * pass_s
    total = load.tokens_per_s(stack, pass_s)
    return total / {"output_tok_s_per_gpu": row.parallelism.gpus, "output_tok_s_per_user": row.users}.get(metric, 1)


def bound_ms(row: ServingRow) -> float:
    """Return a lower bound on a user's mean time between tokens, in milliseconds.

    A pass takes at least the longer of two times: the time of its memory reads and the time of its
    matrix products. Both assume the rates stated by the GPU's vendor, without software costs.
    """
    load = _load(row, load_stack(row.stack, load_gpu(row.gpu).generation).memory_ratio)
    return MS_PER_S * (load.decoding.bound_s + load.mixed_share * (load.mixed.bound_s - load.decoding.bound_s))


def fits(row: ServingRow) -> bool:
    """Return whether the KV caches of all users fit in the GPUs' memory simultaneously."""
    try:
        return _load(row, load_stack(row.stack, load_gpu(row.gpu).generation).memory_ratio).users == row.users
    except DoesNotFit:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Rooflines (minimum pass times) of a serving benchmark.

    A fit of a serving stack's constants tries many values. The rooflines do not depend on these
    constants, so they are computed only once. The only exception is the fraction of memory that the
    stack uses.

    Attributes:
        server: The model on its GPUs.
        row: The conditions of the benchmark.
        users: Number of users in flight. It is less than in the benchmark if not all of its users
            fit.
        decoding: Roofline of a pass that only decodes.
        mixed: Roofline of a pass that decodes and also reads one or several prompts.
        mixed_share: Fraction of passes that are mixed. 0 if all users start together.
        reading: Roofline of a pass that processes the prompts of all users.
    """

    server: GpuServer
    row: ServingRow
    users: int
    decoding: Roofline
    mixed: Roofline
    mixed_share: float
    reading: Roofline

    def seconds(self, roofline: Roofline, stack: StackSpec) -> float:
        """Return the duration of a pass in seconds.

        Args:
            roofline: Minimum time of the pass, set by memory reads or by arithmetic.
            stack: Constants of the serving stack, which add the costs of its software.
        """
        return self.server.time_of(roofline, stack).total_s

    def read_s(self, stack: StackSpec, users: int) -> float:
        """Return the seconds of a pass that processes the prompts of ``users`` users."""
        prompts = [Tokens(users=users, new=self.row.prompt, context=0)]
        return self.seconds(self.reading if users == self.users else self.server.roofline(prompts), stack)

    def pass_s(self, stack: StackSpec) -> float:
        """Return a user's mean time between tokens, in seconds.

        This is the mean duration of a pass, because each pass generates one token for each user.
        """
        decode = self.seconds(self.decoding, stack)
        return decode + self.mixed_share * (self.seconds(self.mixed, stack) - decode)

    def tokens_per_s(self, stack: StackSpec, pass_s: float) -> float:
        """Return the number of tokens generated per second for all users.

        The time of a request includes prefill and decoding. If all users start together, each user
        waits until all prompts are processed; otherwise, only until its own prompt is processed.

        Args:
            stack: Constants of the serving stack.
            pass_s: Mean time between two tokens of a user, in seconds.
        """
        first_token_s = self.read_s(stack, self.users) if self.row.begin_together else self.read_s(stack, 1)
        return self.users * self.row.new / (first_token_s + (self.row.new - 1) * pass_s)


@cache
def _load(row: ServingRow, memory_ratio: float) -> _Load:
    """Return the rooflines (minimum pass times) of a benchmark. Results are cached.

    Args:
        row: The conditions of the benchmark.
        memory_ratio: Fraction of GPU memory that the stack uses. The argument is only part of the
            cache key; the calculation takes the fraction from the bundled stack.
    """
    gpu = load_gpu(row.gpu)
    stack = load_stack(row.stack, gpu.generation)
    server = GpuServer(spec=row.spec, weights=FORMATS[row.weights], gpu=gpu, stack=stack, parallelism=row.parallelism)
    users = max(1, min(row.users, server.users_that_fit(row.prompt + row.new)))
    prompts = (users - 1) / row.new
    decoded = Tokens(users=users, new=1, context=row.prompt + row.new / 2)
    return _Load(
        server=server,
        row=row,
        users=users,
        decoding=server.roofline([decoded]),
        mixed=server.roofline([decoded, Tokens(users=max(1.0, prompts), new=row.prompt, context=0)]),
        mixed_share=0.0 if row.begin_together else min(1.0, prompts),
        reading=server.roofline([Tokens(users=users, new=row.prompt, context=0)]),
    )
