"""Header of a trace: facts that are known in advance, such as names, sizes and options."""

from __future__ import annotations

from typing import Any

import numpy as np

import wse
from wse.compiler.placeable import Placeable
from wse.program.program import Program
from wse_traces.header import RunHeader


def trace_header(placeable: Placeable, program: Program, digest: str, seed: int, options: dict[str, Any]) -> RunHeader:
    """Return the header of a trace, which identifies the model, the wafer and the options.

    Args:
        placeable: The request that was compiled.
        program: The compiled Program.
        digest: Hexadecimal digest of the Program.
        seed: Seed for random weights and sampling.
        options: Further options of the command.
    """
    rows, cols = placeable.fabric_shape[::-1] if program.is_transposed else placeable.fabric_shape
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
        clock_hz=placeable.wafer.clock_hz,
        options={**encode_names(options), **_options(placeable), **_defects(placeable, program)},
        versions={"wse": wse.__version__, "numpy": np.__version__},
    )


def encode_names(value: Any) -> Any:
    """Replace characters that cannot be encoded as UTF-8 with escape sequences.

    Such characters can occur in file names.

    Args:
        value: Text, dictionary or other value. Dictionaries are converted recursively.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return {key: encode_names(item) for key, item in value.items()} if isinstance(value, dict) else value


def _options(placeable: Placeable) -> dict[str, Any]:
    """Return the options of a request that a trace header records, keyed by name."""
    o = placeable.options
    return {
        "dtype": o.dtype,
        "activations": o.activation_type,
        "accumulate": o.accumulate,
        "experts": o.experts,
        "context": o.context,
        "prompt_tokens": o.prompt_tokens[0] if o.batch == 1 else list(o.prompt_tokens),
        "new_tokens": placeable.new_tokens,
        "software": placeable.software.name,
        "region": list(o.region) if o.region else None,
    }


def _defects(placeable: Placeable, program: Program) -> dict[str, Any]:
    """Return the header entries about dead PEs and the live-PE mesh.

    The result is empty if the wafer has no defects.
    """
    if placeable.defects is None or not placeable.meshes:
        return {}
    mesh = [program.wafer_rows, program.wafer_cols]
    return {"defects": encode_names(placeable.defects.option), "defects_seed": placeable.defects.seed, "mesh": mesh}
