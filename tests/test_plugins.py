"""Tests of entry points: plugins of other packages are found, and unusable ones are refused with a remedy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import wse
from wse import plugins
from wse.compiler import strategies
from wse.compiler.rewrites import catalogue, early_shift
from wse.errors import BadInput, UnknownName
from wse.hardware import load as hardware
from wse.hardware import preset_reader, wafer_links
from wse.models.configs import config
from wse.models.families import llama
from wse.program import line_patterns
from wse.serving.economics import load_economics
from wse.serving.gpus import load as gpus
from wse_mappings.patterns import chain
from wse_mappings.patterns.catalogue import BUNDLED_PATTERNS
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.catalogue import bundled_strategies
from wse_mappings.strategies.one_region import Region
from wse_mappings.strategies.strategy import Strategy


class Halves(Region):
    name = "halves"


class NamedLikeBundled(Region):
    name = "tensor"


class WithoutDefaults:
    """A strategy that does not derive from Strategy, so that it lacks the default attributes."""

    name, summary, source, regions = "alone", "", "", ""
    layouts = partition = differs = print


class WithoutLayouts(Region):
    name = "empty"

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> list[Layout]:
        return []


GOOD, TAKEN, BAD, ALONE, EMPTY = Halves(), NamedLikeBundled(), object(), WithoutDefaults(), WithoutLayouts()
PATTERN = replace(chain.PATTERN, name="mine")
REWRITE = replace(early_shift.REWRITE, name="mine", position=5)
FAMILY = replace(llama.FAMILY, model_types=("mine",))
PRESET = Path(__file__).parents[1] / "docs" / "examples" / "package" / "wse_example" / "quarter.toml"


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Replace the installed entry points by the returned list, to which tests append."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in found if point.group == group])
    caches: tuple[Any, ...] = (
        plugins.plugins,
        preset_reader._files,
        strategies.strategies,
        line_patterns.patterns,
        line_patterns.line_reduces,
        config.known_families,
        catalogue.known_rewrites,
    )
    for cache in caches:
        cache.cache_clear()
    yield found
    for cache in caches:
        cache.cache_clear()


NO_STRATEGY = "is not a wse_mappings.strategies.strategy.Strategy: it has no attribute"


def point(name: str, value: str, group: str = plugins.STRATEGIES) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=group)


def test_a_strategy_of_a_package_is_found_after_the_bundled_ones(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("halves", f"{__name__}:GOOD"))
    assert list(strategies.strategies()) == [*bundled_strategies(), "halves"]
    assert strategies.strategy("halves") is strategies.strategies()["halves"]


def test_bundled_names_are_found_without_looking_for_packages(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("broken", "no_such_package_of_anybody:STRATEGY"))
    assert strategies.strategy("region") is bundled_strategies()["region"]
    with pytest.raises(BadInput, match="no_such_package_of_anybody"):
        strategies.strategy("halves")


@pytest.mark.parametrize(
    ("value", "message_part"),
    [
        ("no_such_package_of_anybody:STRATEGY", "cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{__name__}:NOTHING", "cannot be loaded: AttributeError: module"),
        (f"{__name__}:BAD", f"cannot be used: an object of type object {NO_STRATEGY} 'name'"),
        (f"{__name__}:ALONE", f"cannot be used: an object of type WithoutDefaults {NO_STRATEGY} 'spans_wafers'"),
        (f"{__name__}:TAKEN", "its name 'tensor' is taken by wse itself: give it another or uninstall it"),
    ],
)
def test_unusable_entry_point_is_refused_in_one_line_with_a_remedy(
    value: str, message_part: str, entry_points: list[EntryPoint]
) -> None:
    entry_points.append(point("mine", value))
    with pytest.raises(BadInput) as error:
        strategies.strategies()
    message = str(error.value)
    assert message.startswith(f"entry point mine = {value} in wse.mappings: ")
    assert message_part in message
    assert "uninstall it" in message
    assert "\n" not in message


def test_a_strategy_without_a_layout_is_refused(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("empty", f"{__name__}:EMPTY"))
    with pytest.raises(BadInput, match="--mapping empty: has no layout for this model and mesh; choose another"):
        wse.estimate("story", mapping="empty", wafers=1, prompt_len=8, new_tokens=8)


def test_two_packages_cannot_share_a_name(entry_points: list[EntryPoint]) -> None:
    entry_points += [point("a", f"{__name__}:GOOD"), point("b", f"{__name__}:GOOD")]
    with pytest.raises(BadInput, match=r"point b .* its name 'halves' is taken by entry point a = "):
        strategies.strategies()


def test_an_unknown_mapping_is_refused_with_the_names_of_plugins(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("halves", f"{__name__}:GOOD"))
    with pytest.raises(UnknownName, match=r"did you mean 'halves'\? known: auto, bands, expert, halves, "):
        strategies.strategy("halve")


def test_a_pattern_of_a_package_has_closed_forms_and_is_searched_last(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("mine", f"{__name__}:PATTERN", plugins.PATTERNS))
    assert list(line_patterns.patterns()) == [*BUNDLED_PATTERNS, "mine"]
    assert list(line_patterns.line_reduces())[-1] == "mine"


def test_a_rewrite_of_a_package_is_applied_at_its_position(entry_points: list[EntryPoint]) -> None:
    bundled = list(catalogue.known_rewrites())
    catalogue.known_rewrites.cache_clear()
    entry_points.append(point("mine", f"{__name__}:REWRITE", plugins.REWRITES))
    plugins.plugins.cache_clear()
    assert list(catalogue.known_rewrites()) == ["mine", *bundled]


def test_a_family_of_a_package_is_read_by_its_model_type(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("mine", f"{__name__}:FAMILY", plugins.FAMILIES))
    assert config.family_of("mine") is FAMILY
    assert config.family_of("llama") is config.FAMILIES["llama"]
    with pytest.raises(UnknownName, match=r"config\.json: unknown architecture 'mind': did you mean 'mine'\?"):
        config.family_of("mind", origin="config.json")


def test_a_preset_of_a_package_is_found_by_the_name_of_its_file(entry_points: list[EntryPoint]) -> None:
    entry_points.append(point("other", f"{__name__}:PRESET", plugins.WAFERS))
    assert hardware.known_wafers() == ("cs4", "quarter", "wse2", "wse3")
    assert hardware.load_wafer("Quarter").mesh_rows == 585
    assert hardware.provenance("quarter")["mesh_rows"].source == "an example"
    with pytest.raises(UnknownName, match="did you mean 'quarter'"):
        hardware.load_wafer("quart")


def test_bundled_presets_are_read_without_looking_for_packages(entry_points: list[EntryPoint]) -> None:
    entry_points += [
        point("broken", "no_such_package_of_anybody:WAFER", group)
        for group in (plugins.WAFERS, plugins.SOFTWARE, plugins.GPUS, plugins.STACKS, plugins.LINKS)
    ]
    wafer = hardware.load_wafer("wse3")
    assert load_economics(wafer).power_w.value > 0
    assert hardware.provenance("academic")
    assert gpus.load_stack("graph", gpus.load_gpu("h100").generation)
    assert wafer_links.link_numbers("sdk-host")


@pytest.mark.parametrize(
    ("group", "load", "message"),
    [
        (
            plugins.PATTERNS,
            line_patterns.patterns,
            "an object of type object is not a wse_mappings.patterns.pattern.Pattern",
        ),
        (
            plugins.REWRITES,
            catalogue.known_rewrites,
            "an object of type object is not a wse.compiler.rewrites.rewrite.Rewrite",
        ),
        (plugins.FAMILIES, config.known_families, "an object of type object is not a wse.models.family.Family"),
        (plugins.WAFERS, hardware.known_wafers, "an object of type object is not a pathlib.Path of a TOML file"),
        (plugins.SOFTWARE, hardware.known_software, "an object of type object is not a pathlib.Path of a TOML file"),
        (plugins.GPUS, gpus.known_gpus, "an object of type object is not a pathlib.Path of a TOML file"),
        (plugins.STACKS, gpus.known_stacks, "an object of type object is not a pathlib.Path of a TOML file"),
        (plugins.LINKS, wafer_links.known_links, "an object of type object is not a pathlib.Path of a TOML file"),
    ],
)
def test_an_object_of_another_type_is_refused(
    group: str, load: Callable[[], object], message: str, entry_points: list[EntryPoint]
) -> None:
    entry_points.append(point("bad", f"{__name__}:BAD", group))
    with pytest.raises(BadInput, match=message):
        load()


def test_object_of_a_file_is_read_again_after_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in (1, 2):
        Path("mine.py").write_text(f"size = {value}\n", encoding="utf-8")
        assert plugins.object_of_file("mine.py:size") == value
