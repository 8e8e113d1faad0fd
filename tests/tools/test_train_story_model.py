"""The bundled story model and the script that trains it."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
STORY = ROOT / "wse" / "data" / "story"
TEXTS = ["Once there was a dog. He ran.", "A cat sat. The end.", "The sun was hot, so she swam."] * 4


@pytest.fixture(scope="module")
def script() -> ModuleType:
    for name in ("torch", "safetensors"):
        pytest.importorskip(name, reason=f"training needs {name}, of the extra 'train'")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("train_story_model")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def tiny_shape(script: ModuleType):
    return script.Shape(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        vocab_size=270,
        max_position_embeddings=32,
    )


def train_tiny(script: ModuleType, out: Path, seed: int) -> bytes:
    """The weights file after two steps, the last of them in the whole context."""
    model = script.fresh_model(tiny_shape(script), seed)
    tokenizer = script.train_tokenizer(TEXTS, model.shape.vocab_size)
    encoded = [[*e.ids, script.END_ID] for e in tokenizer.encode_batch(TEXTS)]
    schedule = script.Schedule(steps=2, cosine_steps=2, long_steps=1, batch_tokens=64, context=16, warmup_steps=1)
    assert [step for step, _ in script.train(model, encoded, schedule, seed)] == [2]
    script.write_folder(model, tokenizer, out)
    return (out / "model.safetensors").read_bytes()


def test_same_seed_same_weights_other_seed_other_weights(script, tmp_path):
    first = train_tiny(script, tmp_path / "a", seed=1)
    assert first == train_tiny(script, tmp_path / "b", seed=1)
    assert first != train_tiny(script, tmp_path / "c", seed=2)


def test_cached_steps_give_the_logits_of_one_pass(script):
    import torch

    torch.manual_seed(0)
    model = script.Llama(tiny_shape(script))
    ids = torch.randint(270, (2, 9))
    cache = model.empty_cache(2)
    steps = [model(ids[:, at : at + 1], cache, at) for at in range(9)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(ids), atol=1e-5, rtol=0)


def test_tokenizer_returns_any_text(script):
    tokenizer = script.train_tokenizer(TEXTS, 270)
    assert [tokenizer.token_to_id(t) for t in (script.BEGIN, script.END)] == [script.BEGIN_ID, script.END_ID]
    text = "Zoë said: «naïve» \n\t🐶"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_rows_start_with_a_story_and_fill_the_context(script):
    import torch

    stories = [[0, 5, 6, 1], [0, 7, 1]]
    rows = script.rows_of(stories, 8, torch.Generator().manual_seed(0))
    for _ in range(5):
        row = next(rows).tolist()
        assert len(row) == 9
        assert row[:3] in ([0, 5, 6], [0, 7, 1])


def test_greedy_text_of_the_shipped_model_is_the_golden_text(script):
    golden = json.loads((ROOT / "tests" / "data" / "story_golden.json").read_text())
    prompts = [row["prompt"] for row in golden]
    for got, want in zip(script.golden(STORY, prompts, 120), golden, strict=True):
        assert got["prompt_ids"] == want["prompt_ids"]
        assert got["ids"] == want["ids"]
        assert got["text"] == want["text"]


def test_bundled_folder_has_four_files_in_two_million_bytes():
    sizes_bytes = {path.name: path.stat().st_size for path in STORY.iterdir()}
    assert set(sizes_bytes) == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert sum(sizes_bytes.values()) <= 2_000_000


def test_a_draft_is_trained_on_what_its_model_says(script, tmp_path):
    """Same seed, same weights; after some steps both agree more than before."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        drafts = importlib.import_module("train_story_draft")
    finally:
        sys.path.remove(str(ROOT / "tools"))
    import torch

    shape = tiny_shape(script)
    model, generator = script.fresh_model(shape, 1).eval(), torch.Generator().manual_seed(1)
    stories = [[0, *torch.randint(2, 200, (24,), generator=generator).tolist()] for _ in range(8)]
    schedule = script.Schedule(steps=30, cosine_steps=30, long_steps=0, batch_tokens=64, context=16, warmup_steps=1)
    found = []
    for _ in range(2):
        draft = script.fresh_model(shape, 2)
        before = drafts.agreement(draft.eval(), model, stories)
        assert [step for step, _ in drafts.train(draft.train(), model, stories, schedule, 1)] == [30]
        found.append((drafts.agreement(draft.eval(), model, stories), before))
    assert found[0] == found[1]
    after, before = found[0]
    assert after.drawn > before.drawn
