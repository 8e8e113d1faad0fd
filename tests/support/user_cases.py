"""Tiny models on small machines, for tests with several users and with verification passes."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, linear_spec, tensors, tiny_spec
from trait_specs import POSITIONS, TRAITS, norms_spec

from wse.backends.execute.engine import Engine
from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.hardware.spec import WaferSpec
from wse.number_formats import CODINGS
from wse.program.program import Program
from wse_mappings.cuts.expert_groups import DEDICATED

THIN = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
SQUARE = replace(THIN, prefill="mesh-gemm", prefill_chunk=3)
MIXTURE, LATENT, LINEAR = mixture_spec(MIXTURES["shared"]), latent_spec(layers=2), linear_spec()


def coded(dtype: str) -> dict[str, Any]:
    """Return the options of quantised weights with float32 activations."""
    return {"dtype": dtype, "activations": "float32"}


CASES: dict[str, tuple[tuple[int, int], dict[str, Any], Choice]] = {
    "4x5": ((4, 5), {}, THIN),
    "1x1": ((1, 1), {}, THIN),
    "baseline": ((4, 5), {"schedule": BASELINE}, THIN),
    "more rows": ((9, 4), {}, THIN),
    "one row": ((1, 4), {}, THIN),
    "square": ((3, 3), {}, SQUARE),
    "own weights": ((3, 3), {}, replace(SQUARE, prefill="mesh-gemm-own-weights")),
    "two wafers": ((5, 3), {"wafers": 2}, THIN),
    "pipeline": ((4, 6), {"mapping": "pipeline"}, replace(THIN, per_band=2)),
    "untied": ((3, 4), {"wafers": 2, "spec": tiny_spec(tied=False)}, THIN),
    "over wafers": ((3, 4), {"mapping": "tensor", "wafers": 3}, THIN),
    "drawn": ((4, 5), {"sampling": "host"}, THIN),
    "float16": ((3, 3), {"dtype": "float16"}, THIN),
    **{coding: ((3, 4), coded(coding), THIN) for coding in CODINGS},
    "latent": ((4, 5), {"spec": LATENT}, THIN),
    "linear": ((4, 5), {"spec": LINEAR}, THIN),
    "linear over wafers": ((6, 4), {"spec": LINEAR, "mapping": "tensor", "wafers": 3}, THIN),
    "experts": ((3, 4), {"spec": MIXTURE, "wafers": 2}, THIN),
    "own experts": ((4, 5), {"spec": MIXTURE, "experts": DEDICATED}, THIN),
    "experts in int4": ((3, 4), {"spec": MIXTURE, **coded("int4")}, THIN),
    "own experts in fp8": ((4, 5), {"spec": MIXTURE, "experts": DEDICATED, **coded("fp8")}, THIN),
    "biased experts": ((3, 4), {"spec": mixture_spec(MIXTURES["biased"])}, THIN),
    "experts apart": ((3, 4), {"spec": MIXTURE, "mapping": "expert", "wafers": 2}, THIN),
    "positions": ((4, 5), {"spec": POSITIONS}, THIN),
    "norms": ((3, 4), {"spec": norms_spec()}, THIN),
    "traits": ((3, 3), {"spec": TRAITS}, SQUARE),
    "attention in the middle": ((4, 9), {"spec": TRAITS}, replace(THIN, attention_cols=4)),
    "latent attention in the middle": ((4, 9), {"spec": LATENT}, replace(THIN, attention_cols=5)),
}
"""For each case the mesh, the model and options, and the choice of the compiler."""


def user_engine(
    prompts: Sequence[Sequence[int]],
    name: str,
    draws: Sequence[Callable[[npt.NDArray[np.float32]], int]] = (),
    *,
    without: Collection[str] = (),
    **changes: Any,
) -> tuple[Engine, Program, WaferSpec]:
    """Compile a case with all rewrites except ``without``.

    Args:
        prompts: Token ids of each user.
        name: A key of `CASES`.
        draws: For each user, a function that samples an id from logits; used if the host samples.
        without: Names of rewrites to leave out.
        changes: Options to replace or add.

    Returns:
        The engine, the Program and the wafer.
    """
    mesh, case_options, choice = CASES[name]
    option_values = (
        {"schedule": OPTIMIZED, "logits_out": "all", "prompt_tokens": tuple(map(len, prompts))} | case_options | changes
    )
    spec = option_values.pop("spec", tiny_spec())
    options, machine = region_options(**option_values), wafer(*mesh, 1 << 20)
    choice = replace(
        choice, rewrites=tuple(rewrite for rewrite in rewrites_of(spec, options) if rewrite[0] not in without)
    )
    program = compile_choice(spec, machine, SOFTWARE, options, choice)
    draws = draws if options.sampling == "host" else ()
    return Engine(program, spec, tensors(spec).__getitem__, draws), program, machine
