"""The function `wse.compile`, with all options of the command ``wse compile`` as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wse.hardware.generations import DEFAULT_WAFER
from wse.studies.compile.request import CompileRequest
from wse.studies.options.arguments import checks_arguments, read_request

if TYPE_CHECKING:
    from wse.studies.compile.result import CompileResult


@checks_arguments(CompileRequest)
def compile(
    model: str | Path,
    *,
    wafer: str | Path = DEFAULT_WAFER,
    mesh: str | None = None,
    wafers: int | str | None = None,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    place_experts: str | Path | None = None,
    schedule: str = "optimized",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    link: str | Path = "vendor",
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    workload: str | None = None,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    prefix_tokens: int | str | None = None,
    think_time: float | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    replicas: int | str | None = 1,
    objective: str | None = None,
    routing: str = "even",
    verify_tokens: int | str | None = None,
    capacity: str = "refuse",
) -> CompileResult:
    """Compile a model and return a description of its placement on wafers.

    The compiled model is not executed. `wse.estimate` with the same arguments uses the same
    placement and yields the same cycles.

    Example:
        wse.compile("story", mesh="16x16").sram.bytes_per_pe

    The documentation of `wse.estimate` explains the arguments, which are those of the command
    ``wse compile``.
    """
    from wse.studies.compile.compile import compile_request

    request = read_request(CompileRequest, locals())
    return compile_request(request.base)
