"""Real models that were trained elsewhere: tokens, text and logits against what their own framework printed.

The expected values are those of Hugging Face transformers (5.23.0, torch 2.13.0, CPU, float32), stored beside the
weights.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session import Session, golden, model, nll, session

from wse.compiler.choice import Choice
from wse.compiler.options import THIN_GEMM
from wse.models.catalogue import BUNDLED

MESHES = [(1, 1), (4, 4), (7, 5), (16, 16), (33, 20)]
STOCK_SRAM = {(16, 16), (33, 20)}
LARGE_SRAM = 4 << 20
FIRST = 60
"""Tokens by which every row of a mesh has cached some, and shifted them where rows were full."""


def answer(case: dict[str, Any]) -> list[int]:
    """The generated ids of a golden case."""
    return list(case["token_ids"][len(case["prompt_ids"]) :])


def start(folder: Path, mesh: tuple[int, int], case: dict[str, Any], **options: Any) -> Session:
    sram = None if mesh in STOCK_SRAM else LARGE_SRAM
    count = len(answer(case))
    return session(folder, mesh, prompt=case["prompt_ids"], new_tokens=count, sram_bytes=sram, **options)


@pytest.mark.parametrize(
    ("mesh", "mapping", "wafers"),
    [
        pytest.param(mesh, mapping, wafers, id=f"{mesh[0]}x{mesh[1]}-{mapping}-{wafers}")
        for i, mesh in enumerate(MESHES)
        for j, mapping in enumerate(["region", "pipeline"])
        for wafers in (1, 2, 3)
        if (i + j + wafers) % 3 == 1 and mesh != (33, 20)
    ],
)
def test_stories260k_gives_its_golden_tokens(shared: Path, mesh: tuple[int, int], mapping: str, wafers: int) -> None:
    folder = shared / "models" / "stories260k"
    case = golden(folder)[2 if mapping == "region" else 1]
    assert start(folder, mesh, case, mapping=mapping, wafers=wafers).greedy(FIRST) == answer(case)[:FIRST]


def test_stories260k_gives_its_golden_tokens_on_regions_of_different_rows(shared: Path) -> None:
    """On two wafers, so that vectors are cut anew on the way to another wafer as well."""
    folder = shared / "models" / "stories260k"
    case = golden(folder)[1]
    choice = Choice(bands=2, prefill=THIN_GEMM, prefill_chunk=3, head_chunk=40)
    run = start(folder, (17, 9), case, mapping="pipeline", wafers=2, choice=choice)
    assert len({stage.rect.rows for stage in run.program.stages}) > 1
    assert run.greedy(FIRST) == answer(case)[:FIRST]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_stories260k_tells_its_golden_stories_with_mesh_gemm(shared: Path, index: int) -> None:
    """The first one is what its author published."""
    folder = shared / "models" / "stories260k"
    case = golden(folder)[index]
    run = start(folder, (16, 16), case)
    assert run.program.prefill_name == "mesh-gemm"
    tokens = run.greedy(len(answer(case)))
    assert tokens == answer(case)
    text = model(folder).tokenizer.decode([*case["prompt_ids"], *tokens])
    assert text == case["text"]
    if index == 0:
        digest = "30b2ffb07967932a88bfdf5e23b517a6f4cfcf7231db9e537360d3c12a4e4d10"
        assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("mesh", [(16, 16), (33, 20)], ids=["16x16", "33x20"])
def test_stories260k_logits_are_within_1e_4_of_transformers(shared: Path, mesh: tuple[int, int]) -> None:
    folder = shared / "models" / "stories260k"
    expected = np.load(folder / "golden.npz")["logits"]
    got = start(folder, mesh, golden(folder)[0], logits=True).forced(answer(golden(folder)[0])[: len(expected)])
    worst = float(np.abs(got - expected).max())
    assert worst <= 1e-4, f"largest difference {worst:.2e}, allowed 1e-4"


@pytest.mark.slow
def test_stories15m_in_float32_gives_its_golden_tokens_and_logits(beside: Path) -> None:
    """48x48 is the smallest square that the stock wse2 preset allows for it."""
    folder = beside / "models" / "stories15m"
    case = golden(folder)[0]
    run = session(
        folder, (48, 48), prompt=case["prompt_ids"], new_tokens=len(answer(case)), dtype="float32", logits=True
    )
    assert run.greedy(1) == answer(case)[:1]
    stored = np.load(folder / "golden.npz")
    tokens, logits = answer(case)[:1], [run.engine.logits[0]]
    while len(tokens) < len(answer(case)):
        tokens.append(run.engine.decode()[0])
        logits.append(run.engine.logits[0])
    assert tokens == answer(case)
    pairs = zip(stored["logit_positions"], stored["logits"], strict=True)
    worst = max(float(np.abs(logits[position] - expected).max()) for position, expected in pairs)
    assert worst <= 1e-4, f"largest difference {worst:.2e}, allowed 1e-4"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulate", "agreement", "shift"), [("float32", 0.99, 1e-3), ("float16", 0.98, 3e-3)], ids=["float32", "float16"]
)
def test_float16_keeps_token_and_likelihood(shared: Path, accumulate: str, agreement: float, shift: float) -> None:
    folder = shared / "models" / "stories260k"
    case = golden(folder)[0]
    first, *rest = case["token_ids"]
    run = session(
        folder, (16, 16), prompt=[first], new_tokens=len(rest), dtype="float16", accumulate=accumulate, logits=True
    )
    logits = run.forced(rest)
    moved = abs(nll(logits, rest) - case["mean_nll"])
    generated = len(answer(case))
    same = float((logits[-generated:].argmax(axis=1) == np.array(answer(case))).mean())
    assert same >= agreement, f"top-1 agreement {same:.4f}, wanted {agreement}"
    assert moved <= shift, f"NLL shift {moved:.2e} nats, allowed {shift}"


@pytest.mark.parametrize("index", [0, 1])
def test_the_bundled_model_tells_what_its_training_script_saw(index: int) -> None:
    """Greedy in float32, against the script's own torch forward of the shipped weights."""
    data = Path(__file__).parents[1] / "data" / "story_golden.json"
    case = json.loads(data.read_text(encoding="utf-8"))[index]
    story = BUNDLED["story"]
    tokenizer = model(story).tokenizer
    assert tokenizer.encode(case["prompt"]) == case["prompt_ids"]
    run = session(story, (14, 14), prompt=case["prompt_ids"], new_tokens=len(case["ids"]), dtype="float32")
    assert run.greedy(len(case["ids"])) == case["ids"]
    assert tokenizer.decode([*case["prompt_ids"], *case["ids"]]) == case["prompt"] + case["text"]
