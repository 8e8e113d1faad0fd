"""Test of the files of the bundled story model, which are part of every installation.

The training script itself is not tested, because torch is not installed for tests.
"""

from pathlib import Path

STORY = Path(__file__).parents[2] / "wse" / "data" / "story"


def test_story_folder_has_four_files_in_two_million_bytes() -> None:
    sizes_bytes = {path.name: path.stat().st_size for path in STORY.iterdir()}
    assert set(sizes_bytes) == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert sum(sizes_bytes.values()) <= 2_000_000
