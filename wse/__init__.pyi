# Written by `python -m wse.reference .`. Do not edit.
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wse.report.progress import OnProgress
from wse.studies.compare.result import CompareResult
from wse.studies.compare.traces import TracesComparison
from wse.studies.compile.result import CompileResult
from wse.studies.estimate.result import EstimateResult
from wse.studies.run.result import RunResult
from wse.studies.sweep.sweep import SweepResult
from wse.validation.agreement.result import Agreement
from wse.validation.result import Validation
from wse_traces.read import Trace

__version__: str
__all__ = [
    "__version__",
    "compare",
    "estimate",
    "open_trace",
    "run",
    "sweep",
    "validate",
]

def run(
    model: str | Path = "story",
    *,
    wafer: str | Path = "wse2",
    mesh: str | None = None,
    wafers: int | str | None = 1,
    mapping: str | Path = "region",
    region: str | None = None,
    experts: str = "spread",
    schedule: str = "fused",
    software: str | Path = "tuned",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | None = None,
    defects: str | Path | None = None,
    defects_seed: int = 0,
    prompt: str | Sequence[str] | None = None,
    prompt_ids: Sequence[int] | Sequence[Sequence[int]] | str | None = None,
    prompts: str | Path | None = None,
    new_tokens: int | None = None,
    weights: str | None = None,
    chat: bool = False,
    system: str | None = None,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    verify_tokens: int | None = None,
    logits: bool = False,
    allow_nonfinite: bool = False,
    trace: str | Path | None = "wse-run.h5",
    trace_policy: str = "stop",
    record: str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 60.0,
    profile: bool = False,
    profile_output: str | Path = "wse-profile.json",
    wavelets: bool = False,
    on_text: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_stored: OnProgress | None = None,
    on_progress: OnProgress | None = None,
    on_tokens: OnProgress | None = None,
) -> RunResult: ...
def estimate(
    model: str | Path,
    *,
    wafer: str | Path = "wse3",
    mesh: str | None = None,
    wafers: int | str | None = None,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    schedule: str = "fused",
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | None = None,
    defects: str | Path | None = None,
    defects_seed: int = 0,
    prompt_len: int | None = None,
    new_tokens: int | None = None,
    batch: int = 1,
    verify_tokens: int | None = None,
    capacity: str = "refuse",
    economics: str | Path | None = None,
    sensitivity: bool = False,
    trace: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> EstimateResult: ...
def compile(
    model: str | Path,
    *,
    wafer: str | Path = "wse2",
    mesh: str | None = None,
    wafers: int | str | None = 1,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    schedule: str = "fused",
    software: str | Path = "tuned",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | None = None,
    defects: str | Path | None = None,
    defects_seed: int = 0,
    prompt: str | Sequence[str] | None = None,
    prompt_ids: Sequence[int] | Sequence[Sequence[int]] | str | None = None,
    prompts: str | Path | None = None,
    new_tokens: int | None = None,
) -> CompileResult: ...
def compare(
    model: str | Path,
    other: str | Path | None = None,
    *,
    wafer: str | Path = "wse3",
    mesh: str | None = None,
    region: str | None = None,
    experts: str = "auto",
    schedule: str = "fused",
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | None = None,
    defects: str | Path | None = None,
    defects_seed: int = 0,
    prompt_len: int | None = None,
    new_tokens: int | None = None,
    batch: int = 1,
    economics: str | Path | None = None,
    wafers: Sequence[int] | str | None = None,
    mapping: Sequence[str] | str | None = None,
    link_bandwidth: Sequence[float] | str | None = None,
    link_latency: Sequence[float] | str | None = None,
    streams: int | None = None,
    question: str | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> CompareResult | TracesComparison: ...
def sweep(
    source: Mapping[str, Any] | str | Path,
    sets: str | Sequence[str] = (),
    *,
    output: str | Path = "wse-sweep.csv",
    jobs: int | None = None,
    restart: bool = False,
    on_progress: OnProgress | None = None,
) -> SweepResult: ...
def validate(
    *files: str | Path,
    capacity: str = "report",
    against: str | None = None,
    on_progress: OnProgress | None = None,
) -> Validation | Agreement: ...
def open_trace(
    path: str | Path,
) -> Trace: ...
