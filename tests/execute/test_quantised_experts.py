"""Experts as codes on the mesh: logits are those of the weights that codes stand for, however experts are placed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from dequantised import dequantised_tensors
from plain_decoder import plain_logits
from plain_router import mixture_spec
from session import SOFTWARE, region_options, wafer, worst_error
from tiny_model import tensors
from tiny_run import tiny_session

from wse.backends.execute.engine import Engine
from wse.compiler.options import THIN_GEMM, Choice
from wse.compiler.pipeline import compile_choice
from wse.models.spec import Experts, ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes
from wse.number_formats import CODINGS
from wse.program.program import Program
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS
from wse_mappings.cuts.split import ceil_div

Logits = npt.NDArray[np.float32]

IDS = (1, 40, 7, 66, 23, 5, 11, 30)
PROMPT = 5
PROMPTS = ((1, 40, 7, 12), (66, 2))
MIXTURES = {
    "groups cut by columns": Experts(count=5, active=2, ffn_size=70, scoring="sigmoid", correction=True),
    "weighed on its way in": Experts(count=3, active=1, ffn_size=37, normalised=False, weighs_input=True),
    "biased": Experts(count=7, active=4, ffn_size=5, router_bias=True),
}


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("experts", EXPERT_PLACEMENTS)
@pytest.mark.parametrize("coding", CODINGS)
def test_logits_are_those_of_the_experts_that_codes_stand_for(coding: str, experts: str, mixture: str) -> None:
    """On 4x5 PEs, and on 3x3 for one of the mixtures."""
    mesh = (3, 3) if mixture == "biased" else (4, 5)
    spec = mixture_spec(MIXTURES[mixture])
    run = tiny_session(
        spec, mesh, THIN_GEMM, IDS[:PROMPT], 3, chunk=3, dtype=coding, activations="float32", experts=experts
    )
    want = plain_logits(spec, dequantised_tensors(spec, coding), IDS[:-1])[PROMPT - 1 :]
    assert worst_error(run.forced(IDS[PROMPT:]), want) <= 1e-5
    held = {part.tensor.removesuffix(".codes") for tile in run.program.tiles if tile.coding for part in tile.parts}
    matrices = {name for name, shape in tensor_shapes(spec).items() if len(shape) == 2 and name.startswith("layers.")}
    assert matrices - held == {"layers.1.router"}


def compiled(
    spec: ModelSpec,
    mesh: tuple[int, int],
    coding: str,
    experts: str,
    prompts: tuple[int, ...] = (PROMPT,),
    activations: str = "float32",
) -> Program:
    """Prompts in chunks of 3 tokens, logits out."""
    options = region_options(
        dtype=coding,
        activations=activations if coding in CODINGS else None,
        context=9,
        prompt_tokens=prompts,
        logits_out="all",
        experts=experts,
    )
    choice = Choice(prefill=THIN_GEMM, prefill_chunk=3, head_chunk=16)
    return compile_choice(spec, wafer(*mesh, 1 << 20), SOFTWARE, options, choice)


@pytest.mark.parametrize("experts", EXPERT_PLACEMENTS)
@pytest.mark.parametrize("coding", CODINGS)
def test_users_of_one_run_have_the_logits_of_runs_of_their_own(coding: str, experts: str) -> None:
    """Bit for bit, though each token has experts of its own."""
    spec = mixture_spec(MIXTURES["groups cut by columns"])

    def told(*prompts: tuple[int, ...]) -> Logits:
        program = compiled(spec, (3, 4), coding, experts, tuple(map(len, prompts)))
        engine = Engine(program, spec, tensors(spec).__getitem__)
        list(engine.prefill(*prompts))
        found = [np.asarray(engine.logits)]
        for tokens in ([8, 12], [33, 1]):
            engine.decode([token for token, prompt in zip(tokens, PROMPTS, strict=True) if prompt in prompts])
            found.append(np.asarray(engine.logits))
        return np.stack(found, axis=1)

    together = told(*PROMPTS)
    for user, prompt in enumerate(PROMPTS):
        np.testing.assert_array_equal(together[user], told(prompt)[0])


@pytest.mark.parametrize("experts", EXPERT_PLACEMENTS)
@pytest.mark.parametrize("coding", CODINGS)
def test_a_pe_holds_the_codes_and_scales_of_its_experts_and_nothing_else(coding: str, experts: str) -> None:
    """Five experts of 70 features on 3 x 5 PEs, hidden 40: 14 rows a mesh row, 14 or 70 features a column."""
    spec = mixture_spec(MIXTURES["groups cut by columns"])
    held, features = {DISTRIBUTED: (5, 14), DEDICATED: (1, 70)}[experts]
    program = compiled(spec, (3, 5), coding, experts, activations="float16")
    got = {b.name: b.bytes for b in program.buffers if b.use == "weights" and ".experts." in b.name}
    bits, each = CODINGS[coding].bits, CODINGS[coding].scale_bytes(2)
    up, down = "layers.1.experts.gate+layers.1.experts.up", "layers.1.experts.down"
    groups = (
        {DISTRIBUTED: (2, 2), DEDICATED: (2, 3)}[experts] if CODINGS[coding].group else (1, 1)
    )  # rows 28 to 39; 28 to 41
    want = {
        up: ceil_div(14 * bits, 8) * 2 * held * features,
        f"{up}.scales": each * groups[0] * 2 * held * features,
        down: ceil_div(features * bits, 8) * held * 14,
        f"{down}.scales": each * groups[1] * held * 14,
    }
    if CODINGS[coding].group:
        want |= {"groups.experts.gate": 14, "groups.experts.down": features}
    assert got == want
