"""The bundled story model, whose files come with every installation.

What its script of training computes cannot be tested where torch is not installed, which no lane of tests has.
"""

from pathlib import Path

STORY = Path(__file__).parents[2] / "wse" / "data" / "story"


def test_story_folder_has_four_files_in_two_million_bytes() -> None:
    sizes_bytes = {path.name: path.stat().st_size for path in STORY.iterdir()}
    assert set(sizes_bytes) == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert sum(sizes_bytes.values()) <= 2_000_000
