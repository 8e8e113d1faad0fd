"""The header of a trace, known before anything is in it: names, sizes, options, versions."""

from __future__ import annotations

from typing import Any

import numpy as np

import wse
from wse.compiler.placeable import Placeable
from wse.program.program import Program
from wse_traces.header import RunHeader


def trace_header(prepared: Placeable, program: Program, digest: str, seed: int, options: dict[str, Any]) -> RunHeader:
    """Return the header of the trace of a compiled request, with the further ``options`` of its command."""
    rows, cols = prepared.fabric_shape[::-1] if program.turned else prepared.fabric_shape
    return RunHeader(
        created_by=f"wse {wse.__version__}",
        model=encode_names(program.model_name),
        wafer=program.wafer_name,
        mapping=program.mapping_name,
        seed=seed,
        program_digest=digest,
        wafers=program.wafers,
        rows=rows,
        cols=cols,
        clock_hz=prepared.wafer.clock_hz,
        options={**encode_names(options), **_options(prepared), **_defects(prepared, program)},
        versions={"wse": wse.__version__, "numpy": np.__version__},
    )


def encode_names(value: Any) -> Any:
    """Return ``value`` with characters escaped that file names may contain and UTF-8 may not."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return {key: encode_names(item) for key, item in value.items()} if isinstance(value, dict) else value


def _options(prepared: Placeable) -> dict[str, Any]:
    o = prepared.options
    return {
        "dtype": o.dtype,
        "activations": o.activation_type,
        "accumulate": o.accumulate,
        "experts": o.experts,
        "context": o.context,
        "prompt_tokens": o.prompt_tokens[0] if o.batch == 1 else list(o.prompt_tokens),
        "new_tokens": prepared.new_tokens,
        "software": prepared.software.name,
        "region": list(o.region) if o.region else None,
    }


def _defects(prepared: Placeable, program: Program) -> dict[str, Any]:
    """Return rows and columns of the logical mesh of a wafer with defects; empty where all PEs are live."""
    if prepared.defects is None or not prepared.meshes:
        return {}
    mesh = [program.wafer_rows, program.wafer_cols]
    return {"defects": encode_names(prepared.defects.option), "defects_seed": prepared.defects.seed, "mesh": mesh}
