"""Models that stacks serve on GPUs: seconds of passes by `wse.serving.gpus`, in the metrics of serving benchmarks.

Users come and go while others decode, a new one as soon as one is done (closed loop), unless all begin together, as in
LLM-Inference-Bench: then all prompts are read first. Users whose caches do not fit wait for others to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from wse.errors import DoesNotFit
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.spec import ModelSpec
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism, Roofline, Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.spec import StackSpec
from wse.serving.gpus.weights import FORMATS
from wse.studies.validate.measured.gpu_terms import format_of, gpu_of, parallelism_of, stack_of, users_of
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.service_terms import NO_DRAFT, drafts, lengths
from wse.studies.validate.measured.shapes import configuration_of
from wse.studies.validate.predictors.prediction import Prediction, decline

METHOD: Final = "GPU model"

TIMES_MS: Final = ("tpot_ms", "itl_ms")
VERIFY_MS: Final = "verify_ms"
"""A pass over several new tokens of each user; the row's context is that of the users, and how many are new."""
RATES: Final = ("system_output_tok_s", "output_tok_s_per_gpu", "output_tok_s_per_user")
METRICS: Final = (*TIMES_MS, *RATES, "ttft_ms", VERIFY_MS)
MS_PER_S: Final = 1e3
BARE: Final = "graph"
"""The stack of passes that are timed alone: no other user's prompt comes between them."""
_ALL_AT_ONCE: Final = "LLM-Inference-Bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow:
    """A row's conditions, by names: the configuration, the format, the GPU and the stack, and its load."""

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
        """The model."""
        return _spec(self.model)


def predict(m: Measurement) -> Prediction | None:
    """Return the answer to a row about GPUs."""
    row = serving_row(m)
    if not isinstance(row, ServingRow):
        return row
    try:
        stack = load_stack(row.stack, load_gpu(row.gpu).generation)
        return Prediction(value=value_of(row, m.text("metric").strip(), stack), method=METHOD, software=row.stack)
    except DoesNotFit as error:
        return decline(f"wse estimate refuses it: {str(error).partition(';')[0]}")


def serving_row(m: Measurement) -> ServingRow | Prediction | None:
    """The conditions of a row; a Prediction with the reason where they are not known; None for a row of no GPU."""
    metric = m.text("metric").strip()
    if m.table != "gpu":
        return None
    if metric not in METRICS:
        return decline("a fact about a GPU, a draft or its power, which the model of passes does not give")
    name, gpu, stack, parallelism = configuration_of(m.text("model")), gpu_of(m), stack_of(m), parallelism_of(m)
    if name is None:
        return decline(f"no configuration is known for the model {m.text('model')[:40] or '(none named)'}")
    if gpu is None or parallelism is None:
        return decline("the row does not name a GPU that is known, and how many")
    if stack is None:
        return decline("no constants were fitted for the software that served the model")
    weights = format_of(m, _spec(name))
    if weights is None:
        return decline("the element type of the weights is none that GPUs are known to use")
    prompt, new, _ = lengths(m)
    users = users_of(m)
    if prompt is None or new is None:
        return decline("the row does not give the tokens of prompts and answers")
    if users is None:
        return decline("the row does not give one number of users")
    said = m.text("spec_decode").strip().lower()
    if drafts(m) != NO_DRAFT and said not in ("", "not recorded"):
        return decline("drafts were verified, whose acceptance the row does not give")
    if metric == "ttft_ms" and users > 1:
        return decline("the wait of a prompt for others, which hangs on how the benchmark begins")
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
    """Return the prediction of a row in a metric, with the constants of a stack. Raises DoesNotFit."""
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
    """Return the least time between two tokens of a user: reads or products at stated rates, with perfect software."""
    load = _load(row, load_stack(row.stack, load_gpu(row.gpu).generation).memory_ratio)
    return MS_PER_S * (load.decoding.bound_s + load.mixed_share * (load.mixed.bound_s - load.decoding.bound_s))


def fits(row: ServingRow) -> bool:
    """Return whether the caches of all users of a row fit at the same time."""
    try:
        return _load(row, load_stack(row.stack, load_gpu(row.gpu).generation).memory_ratio).users == row.users
    except DoesNotFit:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """The rooflines of a row's passes, which hang on no constant but the share of memory: fits ask for many stacks.

    Attributes:
        row: The row.
        users: Users at the same time: those requested, or as many as fit.
        decoding: Of a pass that decodes.
        mixed: Of one that also prefills a prompt, or several if every pass has more than one on average.
        mixed_share: The fraction of passes that are mixed; 0 where all users begin together.
        reading: Of one that reads the prompts of all users.
    """

    server: GpuServer
    row: ServingRow
    users: int
    decoding: Roofline
    mixed: Roofline
    mixed_share: float
    reading: Roofline

    def seconds(self, roofline: Roofline, stack: StackSpec) -> float:
        """Return a pass with the constants of a stack."""
        return self.server.time_of(roofline, stack).total_s

    def read_s(self, stack: StackSpec, users: int) -> float:
        """Return a pass over the prompts of so many users."""
        prompts = [Tokens(users=users, new=self.row.prompt, context=0)]
        return self.seconds(self.reading if users == self.users else self.server.roofline(prompts), stack)

    def pass_s(self, stack: StackSpec) -> float:
        """Return the mean time between two tokens of a user."""
        decode = self.seconds(self.decoding, stack)
        return decode + self.mixed_share * (self.seconds(self.mixed, stack) - decode)

    def tokens_per_s(self, stack: StackSpec, pass_s: float) -> float:
        """Generated tokens of all users; with a benchmark that counts from the first prompt, its time as well."""
        first = self.read_s(stack, self.users) if self.row.begin_together else self.read_s(stack, 1)
        return self.users * self.row.new / (first + (self.row.new - 1) * pass_s)


@cache
def _load(row: ServingRow, memory_ratio: float) -> _Load:
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


@cache
def _spec(name: str) -> ModelSpec:
    return read_config(CONFIGURATIONS[name])
