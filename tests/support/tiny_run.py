"""Helpers that execute a tiny model with random tensors on a mesh and compare its logits with the plain decoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from plain_decoder import plain_logits
from session import SOFTWARE, Session, region_options, wafer, worst_error
from tiny_model import tensors

from wse.backends.execute.engine import Engine
from wse.compiler.choice import Choice
from wse.compiler.options import OPTIMIZED, THIN_GEMM
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.trees import with_group_count, without_fitted
from wse.models.spec import ModelSpec


def tiny_session(
    spec: ModelSpec,
    mesh: tuple[int, int],
    prefill: str,
    prompt: Sequence[int],
    new_tokens: int,
    *,
    chunk: int | None = None,
    groups: int = 0,
    attention_cols: int = 0,
    **option_values: Any,
) -> Session:
    """Compile a model and load it with random tensors.

    Args:
        spec: The model.
        mesh: Rows and columns of the wafer.
        prefill: Name of the prefill schedule.
        prompt: Token ids.
        new_tokens: Maximum number of generated tokens.
        chunk: Tokens per prefill chunk; None for the complete prompt.
        groups: Number of groups of all-reduces whose trees may be fitted; 0 for the fewest relays.
        attention_cols: Number of columns that compute attention; 0 for all.
        option_values: Further options.
    """
    options = region_options(
        context=len(prompt) + new_tokens,
        prompt_tokens=(len(prompt),),
        logits_out="all",
        **{"schedule": OPTIMIZED} | option_values,
    )
    rewrites = rewrites_of(spec, options)
    choice = Choice(
        prefill=prefill,
        prefill_chunk=chunk or len(prompt),
        head_chunk=9,
        rewrites=rewrites,
        attention_cols=attention_cols,
    )
    machine = wafer(*mesh, 1 << 20)
    if groups:
        choice = with_group_count(
            spec, machine, SOFTWARE, options, replace(choice, rewrites=without_fitted(rewrites)), groups
        )
    program = compile_choice(spec, machine, SOFTWARE, options, choice)
    engine = Engine(program, spec, tensors(spec).__getitem__)
    return Session(engine=engine, program=program, machine=machine, prompt=tuple(prompt))


def worst_logit_error(
    spec: ModelSpec,
    mesh: tuple[int, int],
    prefill: str = THIN_GEMM,
    *,
    prompt: int = 11,
    new_tokens: int = 4,
    **session_arguments: Any,
) -> float:
    """Run random ids on a mesh and return the largest error of the logits.

    The error is relative to the largest logit of the plain decoder.

    Args:
        spec: The model.
        mesh: Rows and columns of the wafer.
        prefill: Name of the prefill schedule.
        prompt: Number of tokens in the prompt.
        new_tokens: Number of decoded tokens.
        session_arguments: Further arguments of `tiny_session`.
    """
    random = np.random.default_rng(prompt)
    ids = [int(i) for i in random.integers(0, spec.vocab_size, prompt + new_tokens)]
    run = tiny_session(spec, mesh, prefill, ids[:prompt], new_tokens, **session_arguments)
    logits: npt.NDArray[np.float32] = run.forced(ids[prompt:])
    expected = plain_logits(spec, tensors(spec).__getitem__, ids[:-1])[prompt - 1 :]
    return worst_error(logits, expected)
