"""Tests of op outputs in SRAM against the plain decoder, and of random models, meshes, batches and rewrites."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dequantised import dequantised_tensors
from plain_decoder import plain_logits
from plain_router import MIXTURES, mixture_spec
from random_schedules import random_case, run_case
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, linear_spec, tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.execute.observation.observation import Observation
from wse.backends.execute.observation.op_outputs import READABLE
from wse.compiler.choice import Choice
from wse.compiler.options import MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS
from wse.program.program import Program

PROMPT, NEW = 7, 3
Values = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model on a mesh, with the choice and options of its compilation."""

    spec: Callable[[], ModelSpec] = tiny_spec
    mesh: tuple[int, int] = (4, 5)
    choice: Choice = field(default_factory=lambda: Choice(prefill=THIN_GEMM, prefill_chunk=4, head_chunk=9))
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-4
    dtype: type[np.generic] = np.float32


CASES = {
    "thin": Case(),
    "more columns than features": Case(mesh=(3, 17)),
    "on the mesh": Case(mesh=(4, 4), choice=Choice(prefill=MESH_GEMM, prefill_chunk=4, head_chunk=9)),
    "own weights": Case(mesh=(3, 3), choice=Choice(prefill=MESH_GEMM_OWN, prefill_chunk=6, head_chunk=9)),
    "two wafers": Case(options={"wafers": 2}),
    "a region over wafers": Case(options={"wafers": 2, "mapping": "tensor"}),
    "three users": Case(options={"prompt_tokens": (PROMPT,) * 3}),
    "drawn by the host": Case(options={"sampling": "host"}),
    "norms after blocks": Case(spec=lambda: replace(tiny_spec(), post_norms=True, norm_unit_offset=True)),
    "vectors": Case(
        spec=lambda: replace(tiny_spec(), norm="layer", qkv_bias=True, output_bias=True, ffn_bias=True, gated=False)
    ),
    "heads normalised": Case(spec=lambda: replace(tiny_spec(), head_norm="rms")),
    "int8": Case(options={"dtype": "int8", "activations": "float32"}),
    "int4, rows with whole groups": Case(
        spec=lambda: tiny_spec(hidden=64), mesh=(6, 3), options={"dtype": "int4", "activations": "float32"}
    ),
    "float16": Case(options={"dtype": "float16"}, tolerance=1e-2, dtype=np.float16),
    "bfloat16": Case(options={"dtype": "bfloat16"}, tolerance=5e-2),
    "latent": Case(spec=latent_spec),
    "linear": Case(spec=linear_spec),
    "experts": Case(spec=lambda: mixture_spec(MIXTURES["softmax"])),
    "experts with separate norms": Case(spec=lambda: mixture_spec(MIXTURES["separate norms"])),
    "experts apart": Case(
        spec=lambda: mixture_spec(MIXTURES["shared"], layers=3),
        options={"wafers": 2, "mapping": "expert", "experts": "dedicated"},
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("bfloat16", "experts") else ()) for name in CASES]
)
def test_op_outputs_are_those_of_the_plain_decoder(name: str) -> None:
    case = CASES[name]
    spec, weights_by_name = case.spec(), tensors(case.spec())
    if case.options.get("dtype") in CODINGS:  # quantising dequantised weights gives the same codes
        tensor = dequantised_tensors(spec, case.options["dtype"])
        weights_by_name = {name: tensor(name) for name in weights_by_name}
    program = compiled(case, spec)
    ids = [int(i) for i in np.random.default_rng(3).integers(3, spec.vocab_size, PROMPT + NEW)]
    want: dict[str, Values] = {}
    plain_logits(spec, weights_by_name.__getitem__, ids, want.__setitem__)
    observed_ops = [i for i, kind in enumerate(program.op_kinds) if kind in READABLE]
    outputs: list[tuple[int, Values]] = []
    draws = [lambda logits: 0] * program.batch if program.sampling == "host" else []
    engine = Engine(
        program,
        spec,
        weights_by_name.__getitem__,
        draws,
        observation=Observation(watched=observed_ops, on_output=lambda op, values: outputs.append((op, values))),
    )
    compared: set[str] = set()

    def compare(first: int, count: int, users: int) -> None:
        for op, values in outputs:
            op_name = program.op_names[op]
            if op_name not in want:
                continue
            assert values.dtype == (np.float32 if op_name == "head" else case.dtype)
            at_end = program.op_layers[op] < 0 and op_name != "embedding"
            tokens = np.array([first + count - 1]) if at_end else np.arange(first, first + count)
            expected = np.repeat(want[op_name][tokens], users, axis=0)
            assert values.shape == expected.shape, op_name
            np.testing.assert_allclose(
                values, expected, rtol=0, atol=case.tolerance * np.abs(want[op_name]).max(), err_msg=op_name
            )
            compared.add(op_name)
        outputs.clear()

    for index in engine.prefill(*[ids[:PROMPT]] * program.batch):
        phase = program.prefill[index]
        if outputs and phase.cached + phase.tokens < PROMPT:
            assert not any(program.op_kinds[op] == "head" for op, _ in outputs)
        compare(phase.cached, phase.tokens, 1)
    for position in range(PROMPT, PROMPT + NEW - 1):
        engine.decode([ids[position]] * program.batch)
        compare(position, 1, program.batch)
    unread = {name for name in want if name.endswith(".qkv") and spec.attention_gate}
    assert compared == ({program.op_names[op] for op in observed_ops} & want.keys()) - unread
    missing = {program.op_kinds[op] for op in observed_ops if program.op_names[op] not in want}
    assert missing <= {"experts_down", "latent_output"}, missing


def test_queries_are_not_read_if_their_norms_scale_the_scores() -> None:
    spec, outputs = replace(tiny_spec(), head_norm="rms"), set[str]()
    choice = Choice(prefill=THIN_GEMM, prefill_chunk=4, head_chunk=9, rewrites=(("query-scales", 1),))
    program = compiled(Case(choice=choice), spec)
    observed_ops = [i for i, kind in enumerate(program.op_kinds) if kind in READABLE]
    engine = Engine(
        program,
        spec,
        tensors(spec).__getitem__,
        [],
        observation=Observation(watched=observed_ops, on_output=lambda op, values: outputs.add(program.op_kinds[op])),
    )
    assert len(list(engine.prefill([5] * PROMPT))) == 2
    assert {program.op_kinds[op] for op in observed_ops} - outputs == {"qkv"}


def compiled(case: Case, spec: ModelSpec) -> Program:
    """Return the Program of a case for the prompt and the new tokens."""
    options = region_options(**{"context": PROMPT + NEW, "prompt_tokens": (PROMPT,)} | case.options)
    return compile_choice(spec, wafer(*case.mesh, 1 << 20), SOFTWARE, options, case.choice)


ERROR = 2e-5
"""Maximum error of a logit, relative to the largest logit."""
QUICK, SEEDS = 4, 16
"""Number of seeds of the quick tests, and of all tests."""


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed < QUICK else [pytest.mark.slow]) for seed in range(SEEDS)]
)
def test_random_case_gives_the_logits_and_words_of_the_oracles(seed: int) -> None:
    """A case has prompts in chunks, decode passes of all users, and a verification pass for each user."""
    case = random_case(seed)
    run = run_case(case)
    assert run.worst <= ERROR, case.description
    assert run.tokens_agree, case.description
