"""Bundled models, wafers, software profiles and mappings, with the sources of their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

from wse.compiler.strategies import strategies
from wse.hardware.load import known_software, known_wafers, load_wafer, provenance
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.spec import WaferSpec
from wse.known_names import known_name
from wse.models.catalogue import BUNDLED, CONFIGURATIONS, origins
from wse.models.configs.config import known_families, read_config
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import kv_bytes_per_token, parameter_count, parameters_per_token
from wse.reports.number_text import count, hertz, in_bytes, three_figures
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import console_on, heading, printable
from wse.reports.terminal_table import print_table
from wse.serving.economics import load_economics
from wse.studies.bundled_result import (
    ActiveExperts,
    ConfigurationResult,
    MachineResult,
    MappingResult,
    MappingsResult,
    ModelsResult,
    NumberResult,
    Numbers,
    WafersResult,
)

GRADES = "M measured, V stated by the vendor, D derived, I inferred, R reported second-hand, U by the user"

KV_ELEMENT_BYTES: Final = 2

ANNOUNCED: Final = "announced by its vendor, not measured; the rest is carried over: see sources"


def models() -> ModelsResult:
    """Return the bundled models, the bundled configurations and the supported model families.

    Models include weights; configurations do not. A family corresponds to a ``model_type`` in
    Hugging Face configurations.
    """
    with_weights = []
    for name in BUNDLED:
        loaded_model = load_model(name)
        spec = dataclasses.asdict(loaded_model.spec) | {"layer_count": loaded_model.spec.layer_count}
        listing_fields = {
            "name": name,
            "parameters": parameter_count(loaded_model.spec),
            "folder": str(loaded_model.path),
        }
        with_weights.append({**spec, **listing_fields})
    return ModelsResult(
        models=tuple(with_weights),
        configurations=tuple(_configuration(name, read_config(path)) for name, path in CONFIGURATIONS.items()),
        families=tuple(sorted(known_families())),
    )


def _configuration(name: str, spec: ModelSpec) -> ConfigurationResult:
    """Return the sizes, source and licence of a bundled configuration.

    The KV-cache size assumes 16-bit elements.
    """
    origin = origins()[name]
    experts = ActiveExperts.from_parts(spec.experts) if spec.experts else None
    return ConfigurationResult.from_parts(
        spec,
        name=name,
        parameters=parameter_count(spec),
        parameters_per_token=parameters_per_token(spec),
        dtype=spec.weight_type,
        experts=experts,
        kv_bytes_per_token=kv_bytes_per_token(spec, KV_ELEMENT_BYTES),
        source=f"huggingface.co/{origin.repository}",
        licence_of_weights=origin.licence,
        note=origin.note or None,
    )


def print_models(content: ModelsResult, stream: TextIO) -> None:
    """Print the result of ``wse models`` as tables."""
    console = console_on(stream)
    for model in content.models:
        heads = f"{model['head_count']} heads of {model['head_size']}, {model['kv_head_count']} with keys of their own"
        rows = [
            ("family", model["family"]),
            ("size", f"{count(model['parameters'])} parameters in {model['dtype']}"),
            ("layers", f"{model['layer_count']} of width {model['hidden_size']}, {heads}"),
            ("feed-forward", f"width {model['ffn_size']}"),
            ("vocabulary", f"{count(model['vocab_size'])} tokens"),
            ("context", f"{count(model['context_limit'])} tokens"),
            ("source", f"this project's own, see {printable(model['folder'])}/README.md"),
        ]
        print_table(console, pair_table(rows, model["name"], f"wse run {model['name']}"))
    columns = (
        Column(key="name", title="name"),
        number("parameters", "size", _parameters),
        Column(key="dtype", title="type"),
        number("layer_count", "layers", priority=1),
        number("hidden_size", "hidden", priority=2),
        number("experts", "experts", lambda experts: f"{experts.active}/{experts.count}"),
        number("kv_bytes_per_token", "KV/token", in_bytes),
        number("context_limit", "context"),
    )
    note = "without weights: wse estimate NAME, wse compile NAME, wse run NAME --weights random:0"
    print_table(console, Table(columns=columns, rows=content.configurations, title="Configurations", note=note))
    console.print()
    console.print("Experts: of a token / of a layer. KV: 16-bit elements. wse models --json names each one's source.")
    console.print()
    families = ", ".join(content.families)
    console.print(
        f"Hugging Face folders and GGUF files run too: wse run FOLDER|FILE.gguf, its model_type one of {families}"
    )


def _parameters(parameters: int) -> str:
    """Format a parameter count with three significant digits, such as "70.6 B" or "934 M"."""
    return f"{three_figures(parameters / 1e9)} B" if parameters >= 1e9 else f"{three_figures(parameters / 1e6)} M"


def wafers() -> WafersResult:
    """Return the constants of all bundled wafers and software profiles.

    Each constant has a unit, a source, and a grade that states how reliable it is.
    """
    return WafersResult(
        announced=tuple(name for name in known_wafers() if load_wafer(name).announced),
        wafers={name: _wafer_numbers(name) for name in known_wafers()},
        software={name: _numbers(name) for name in known_software()},
    )


def machine(name: str) -> MachineResult:
    """Return the constants of one wafer or of one software profile (costs of a wafer's software).

    Args:
        name: Name of a bundled wafer or software profile, or path of a TOML file.

    Raises:
        BadInput: The name is unknown or the file is invalid; see ``load_wafer``.
    """
    numbers = _numbers(name)
    is_wafer = numbers.keys() == numeric_fields(WaferSpec).keys()
    display_name = known_name(name, (*known_wafers(), *known_software())) or name
    if not is_wafer:
        return MachineResult(name=display_name, numbers=numbers)
    return MachineResult(name=display_name, announced=load_wafer(name).announced, numbers=_wafer_numbers(name))


def _wafer_numbers(name: str) -> Numbers:
    """Return a wafer's constants, followed by its power, its price and the energies of operations."""
    return _numbers(name) | number_results(load_economics(load_wafer(name)).sources)


def _numbers(name: str) -> dict[str, NumberResult]:
    """Return a wafer's or software profile's constants and their sources, keyed by name."""
    return number_results(provenance(name))


def number_results(numbers: Mapping[str, SourcedNumber]) -> dict[str, NumberResult]:
    """Return constants and their sources as results, keyed by name."""
    return {key: NumberResult(**dataclasses.asdict(source)) for key, source in numbers.items()}


def print_wafers(content: WafersResult, stream: TextIO) -> None:
    """Print two summary tables: the bundled wafers and the bundled software profiles."""
    console = console_on(stream)
    columns = (
        Column(key="name", title="name", cell=lambda wafer: f"{wafer.name} *" if wafer.announced else wafer.name),
        number("mesh", "mesh", cell=lambda wafer: f"{wafer.mesh_rows}x{wafer.mesh_cols}"),
        number("pes", "PEs", cell=lambda wafer: count(wafer.mesh_rows * wafer.mesh_cols)),
        number("sram_bytes_per_pe", "SRAM a PE", lambda sram_bytes: f"{sram_bytes / 1024:g} KiB"),
        number("sram_bytes", "SRAM in all", cell=_sram_in_all),
        number("clock_hz", "clock", hertz),
        number("wafer_link_bytes_per_s", "link", lambda rate: f"{in_bytes(rate)}/s"),
        number("price", "USD/h", cell=lambda wafer: f"{content.wafers[wafer.name]['wafer_usd_per_hour'].value:g}"),
        number(
            "price_range",
            "price range",
            cell=lambda wafer: constant_range(content.wafers[wafer.name]["wafer_usd_per_hour"]),
            priority=1,
        ),
    )
    presets = [load_wafer(name) for name in content.wafers]
    note = "wse wafers NAME shows every number with its source"
    print_table(console, Table(columns=columns, rows=presets, title="Wafers", note=note))
    console.print(f"  * {ANNOUNCED}")
    keys = ("code_bytes_per_pe", "task_dispatch_cycles", "vector_issue_cycles", "reduce_gap_cycles")
    numbers = (number(key, key.replace("_", " "), wraps=True, min_width=0) for key in keys)
    rows = [{"name": name, **{key: numbers[key].value for key in keys}} for name, numbers in content.software.items()]
    table = Table(
        columns=(Column(key="name", title="name"), *numbers),
        rows=rows,
        title="Software profiles",
        note="what launches, loops and messages cost; --software NAME",
    )
    print_table(console, table)


def _sram_in_all(wafer: WaferSpec) -> str:
    return in_bytes(wafer.sram_bytes_per_pe * wafer.mesh_rows * wafer.mesh_cols)


def print_machine(content: MachineResult, stream: TextIO) -> None:
    """Print all constants of one wafer or software profile as a table with grades and sources."""
    print_numbers(content.name, content.numbers, (ANNOUNCED,) if content.announced else (), stream)


def print_numbers(
    name: str, numbers: Numbers, notes: Iterable[str], stream: TextIO, *, units: tuple[Column, ...] = ()
) -> None:
    """Print constants as a table with grades and sources.

    Args:
        name: Name of the machine or software that has the constants.
        numbers: The constants, by name.
        notes: Lines between the name and the table.
        stream: Stream to print to.
        units: Column for the units, if the names of the constants do not state them.
    """
    console = console_on(stream)
    columns = (
        Column(key="key", title="number"),
        number("value", "value", lambda value: f"{value:,.12g}"),
        *units,
        Column(key="grade"),
        Column(key="source", title="source", wraps=True, cell=_source_and_range),
    )
    rows = [{"key": key, **source.to_dict()} for key, source in numbers.items()]
    heading(console, printable(name), GRADES)
    for note in notes:
        console.print(note, soft_wrap=False)
    print_table(console, Table(columns=columns, rows=rows))


def _source_and_range(row: Mapping[str, Any]) -> str:
    """Return the source of a constant, followed by its range with the reason if it has one.

    Args:
        row: Fields of the constant, as in JSON.
    """
    if "range" not in row:
        return printable(row["source"])
    low, high = (f"{end:,.12g}" for end in row["range"])
    reason = f": {row['range_source']}" if "range_source" in row else ""
    return printable(f"{row['source']}; range {low} to {high}{reason}")


def constant_range(constant: NumberResult) -> str:
    """Return the range of a constant, such as "2.1 to 6.3", or "-" if it has none."""
    return "-" if constant.range is None else " to ".join(f"{end:g}" for end in constant.range)


def mappings() -> MappingsResult:
    """Return all mapping strategies: bundled ones first, then those from installed packages."""
    return MappingsResult(mappings=tuple(MappingResult.from_parts(strategy) for strategy in strategies().values()))


def print_mappings(content: MappingsResult, stream: TextIO) -> None:
    """Print a description of each mapping strategy and where it was published."""
    console = console_on(stream)
    for strategy in content.mappings:
        rows = [("does", strategy.summary), ("source", strategy.source)]
        print_table(console, pair_table(rows, strategy.name, f"--mapping {strategy.name}"))
