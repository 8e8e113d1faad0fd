"""Phrases of tables that several commands print."""

from types import SimpleNamespace

from wse.reports.shared_tables import mapping_text, stages_text


def test_stages_text_counts_stages_without_layers() -> None:
    embedding, layers = SimpleNamespace(layers=()), SimpleNamespace(layers=(0, 3))
    assert stages_text([layers]) == "1 pipeline stage"
    text = "3 pipeline stages, 1 of them without layers (for embedding or output head)"
    assert stages_text([embedding, layers, layers]) == text


def test_mapping_text_of_a_mapping_without_summary_is_its_name() -> None:
    assert mapping_text("mine.toml", "") == "mine.toml"
