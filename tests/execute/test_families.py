"""Tests of model families, weight formats and trained models: tokens and logits equal those of transformers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from goldens import check
from random_checkpoint import write_checkpoint
from random_gguf import write_gguf
from session import Session, golden, model, session
from tiers import slow_but

from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, THIN_GEMM
from wse.models.catalogue import BUNDLED
from wse_mappings.cuts.expert_groups import DEDICATED

DATA = Path(__file__).parents[1] / "data"
GOLDENS = DATA / "families"
NAMES = sorted(path.stem for path in GOLDENS.glob("*.json"))
NO_EXPERTS = '_experts": null'
MIXTURES = [
    name for name in NAMES if "expert" in (GOLDENS / f"{name}.json").read_text(encoding="utf-8").replace(NO_EXPERTS, "")
]
CHOICE = Choice(prefill=THIN_GEMM, prefill_chunk=4, head_chunk=9)
"""Decisions of the compiler in most tests. The first test of each family searches for the best ones."""
TWO_WAFERS = {"mesh": (3, 3), "wafers": 2, "mapping": "pipeline", "schedule": BASELINE}
QUICK_TYPES = ("F16", "Q4_0", "Q8_0")

PLACED_LIKE_OTHERS = (
    *("ernie4_5", "ernie4_5_moe", "exaone4", "falcon_7b", "gemma", "glm", "glm4", "gpt_neox"),
    *("granitemoe", "minimax_m2", "nemotron", "olmo3", "olmoe", "opt", "phimoe", "qwen2_moe", "seed_oss"),
    *("smollm3", "stablelm", "stablelm_parallel", "starcoder2"),
)
"""Models whose ops are placed like those of other families, so that they are tested on fewer placements."""


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    golden = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    check(golden["cases"][1], write_checkpoint(tmp_path, golden), mesh=(5, 5))


PLACED = [name for name in NAMES if name not in PLACED_LIKE_OTHERS]
SPLIT_REGION = {"mesh": (3, 4), "wafers": 2, "mapping": "tensor"}
SPLIT_EXPERTS = {"mesh": (3, 4), "wafers": 2, "mapping": "expert"}
DEDICATED_EXPERTS = {"mesh": (3, 3), "experts": DEDICATED}
QUICK = ("cohere2", "deepseek_v3", "gemma3", "gpt2", "gpt_oss", "llama4", "qwen3_next")
"""Models that together have nearly all traits of the families."""


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param(name, machine, marks=() if name in QUICK and machine != TWO_WAFERS else pytest.mark.slow)
        for name, machine in (
            *((name, TWO_WAFERS) for name in PLACED),
            *((name, SPLIT_REGION) for name in PLACED),
            *((name, SPLIT_EXPERTS) for name in MIXTURES if name in PLACED and not name.endswith("_dense")),
            *((name, DEDICATED_EXPERTS) for name in MIXTURES if name in PLACED),
        )
    ],
    ids=str,
)
def test_logits_on_other_placements_are_those_of_transformers(
    name: str, machine: dict[str, Any], tmp_path: Path
) -> None:
    golden = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    check(golden["cases"][0], write_checkpoint(tmp_path, golden), choice=CHOICE, **machine)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK_TYPES else pytest.mark.slow)
        for path in sorted((DATA / "gguf").glob("*.json"))
    ],
)
def test_gguf_logits_are_those_of_transformers(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    check(golden["cases"][1], write_gguf(tmp_path / "model.gguf", golden), mesh=(3, 3), choice=CHOICE)


@pytest.mark.parametrize("path", sorted((DATA / "formats").glob("*.json")), ids=lambda path: path.stem)
def test_safetensors_logits_are_those_of_transformers(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    model = write_checkpoint(tmp_path / "model", golden, golden["dtype"])
    check(golden["cases"][0], model, mesh=(3, 4), wafers=2, choice=CHOICE)


@pytest.mark.parametrize("method", ["fp8", "mxfp4"])
def test_packed_codes_give_the_logits_of_unpacked_matrices(method: str, tmp_path: Path) -> None:
    """The codes keep the scales of the checkpoint. Tokens and tolerances are those of unpacked matrices."""
    golden = json.loads((DATA / "formats" / f"{method}.json").read_text(encoding="utf-8"))
    model = write_checkpoint(tmp_path / "model", golden, golden["dtype"])
    check(golden["cases"][0], model, mesh=(3, 4), wafers=2, dtype=method, activations="float32")
    check(golden["cases"][1], model, mesh=(3, 3), dtype=method, activations="float32")


STOCK_SRAM = {(16, 16), (33, 20)}
LARGE_SRAM = 4 << 20
COMPARED_TOKENS = 60
"""Number of compared tokens; by then every row of a mesh has cached entries, and full rows have shifted theirs."""


def answer(case: dict[str, Any]) -> list[int]:
    """Return the generated ids of a golden case."""
    return list(case["token_ids"][len(case["prompt_ids"]) :])


def start(folder: Path, mesh: tuple[int, int], case: dict[str, Any], **options: Any) -> Session:
    """Return a session of a golden case; most meshes get more SRAM per PE than the preset has."""
    sram = None if mesh in STOCK_SRAM else LARGE_SRAM
    count = len(answer(case))
    return session(folder, mesh, prompt=case["prompt_ids"], new_tokens=count, sram_bytes=sram, **options)


@pytest.mark.parametrize(
    ("mesh", "mapping", "wafers"),
    [
        ((1, 1), "region", 1),
        ((7, 5), "pipeline", 2),
    ],
    ids=str,
)
def test_stories260k_gives_its_golden_tokens(test_data: Path, mesh: tuple[int, int], mapping: str, wafers: int) -> None:
    folder = test_data / "models" / "stories260k"
    case = golden(folder)[2 if mapping == "region" else 1]
    assert (
        start(folder, mesh, case, mapping=mapping, wafers=wafers).greedy(COMPARED_TOKENS)
        == answer(case)[:COMPARED_TOKENS]
    )


def test_stories260k_gives_its_golden_story_with_mesh_gemm(test_data: Path) -> None:
    """The story is the one that the author of the model published; its digest is compared as well."""
    folder = test_data / "models" / "stories260k"
    case = golden(folder)[0]
    run = start(folder, (16, 16), case)
    assert run.program.prefill_name == "mesh-gemm"
    tokens = run.greedy(len(answer(case)))
    assert tokens == answer(case)
    text = model(folder).tokenizer.decode([*case["prompt_ids"], *tokens])
    assert text == case["text"]
    digest = "30b2ffb07967932a88bfdf5e23b517a6f4cfcf7231db9e537360d3c12a4e4d10"
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("mesh", slow_but([(16, 16), (33, 20)], (16, 16)), ids=["16x16", "33x20"])
def test_stories260k_logits_are_within_1e_4_of_transformers(test_data: Path, mesh: tuple[int, int]) -> None:
    folder = test_data / "models" / "stories260k"
    expected = np.load(folder / "golden.npz")["logits"]
    got = start(folder, mesh, golden(folder)[0], logits=True).forced(answer(golden(folder)[0])[: len(expected)])
    worst = float(np.abs(got - expected).max())
    assert worst <= 1e-4, f"largest difference {worst:.2e}, allowed 1e-4"


@pytest.mark.parametrize("index", slow_but([0, 1], 0))
def test_bundled_model_gives_the_stories_of_its_training_script(index: int) -> None:
    """Greedy tokens in float32 equal those of the training script's torch model with the shipped weights."""
    data = Path(__file__).parents[1] / "data" / "story_golden.json"
    case = json.loads(data.read_text(encoding="utf-8"))[index]
    story = BUNDLED["story"]
    tokenizer = model(story).tokenizer
    assert tokenizer.encode(case["prompt"]) == case["prompt_ids"]
    run = session(story, (14, 14), prompt=case["prompt_ids"], new_tokens=len(case["ids"]), dtype="float32")
    assert run.greedy(len(case["ids"])) == case["ids"]
    assert tokenizer.decode([*case["prompt_ids"], *case["ids"]]) == case["prompt"] + case["text"]
