"""Tests of the texts that the tables of several commands share."""

from types import SimpleNamespace

from wse.reports.shared_tables import mapping_with_summary, stages_text
from wse_mappings.strategies.catalogue import bundled_strategies


def test_stages_text_counts_stages_without_layers() -> None:
    embedding, layers = SimpleNamespace(layers=()), SimpleNamespace(layers=(0, 3))
    assert stages_text([layers]) == "1 pipeline stage"
    text = "3 pipeline stages, 1 of them without layers (for embedding or output head)"
    assert stages_text([embedding, layers, layers]) == text


def test_mapping_from_a_file_has_only_its_name() -> None:
    assert mapping_with_summary("mine.toml", bundled_strategies()) == "mine.toml"


def test_bundled_mapping_has_its_summary() -> None:
    text = mapping_with_summary("region", bundled_strategies())
    assert text.startswith("region (all layers of a wafer time-share one rectangle of PEs; ")
