"""What comes with wse: models, wafers, software profiles and mappings, with their sources."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, TextIO

from wse.compiler.strategies import strategies
from wse.hardware.load import known_software, known_wafers, load_wafer, provenance
from wse.hardware.number import numeric_fields
from wse.hardware.spec import WaferSpec
from wse.models.bundled import BUNDLED, CONFIGURATIONS, origins
from wse.models.configs.config import known_families, read_config
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import kv_bytes_per_token, parameter_count, parameters_per_token
from wse.report.terminal import console_on, count, heading, hertz, in_bytes, lines, plain_table, show, shown

GRADES = "M measured, V stated by the vendor, D derived, I inferred, R reported second-hand, U by the user"

KV_ELEMENT_BYTES: Final = 2

ANNOUNCED: Final = "announced by its vendor, not measured; the rest is carried over: see sources"

Facts = dict[str, Any]


def models() -> Facts:
    """What can be named where a model goes, and the families (``model_type``) that are read.

    ``models``: those with weights, with shape, size and folder. ``configurations``: those without, in short.
    """
    found = []
    for name in BUNDLED:
        loaded = load_model(name)
        spec = dataclasses.asdict(loaded.spec) | {"layer_count": loaded.spec.layer_count}
        found.append({**spec, "name": name, "parameters": parameter_count(loaded.spec), "folder": str(loaded.path)})
    configurations = [_configuration(name, read_config(path)) for name, path in CONFIGURATIONS.items()]
    return {"models": found, "configurations": configurations, "families": sorted(known_families())}


def _configuration(name: str, spec: ModelSpec) -> Facts:
    """Sizes of a configuration, and where it comes from. Bytes of the cache are those of 16-bit elements."""
    origin = origins()[name]
    experts = {"count": spec.experts.count, "active": spec.experts.active} if spec.experts else None
    return {
        "name": name,
        "family": spec.family,
        "parameters": parameter_count(spec),
        "parameters_per_token": parameters_per_token(spec),
        "dtype": spec.dtype,
        "layer_count": spec.layer_count,
        "hidden_size": spec.hidden_size,
        "head_count": spec.head_count,
        "kv_head_count": spec.kv_head_count,
        "head_size": spec.head_size,
        "ffn_size": spec.ffn_size,
        **({"experts": experts} if experts else {}),
        "vocab_size": spec.vocab_size,
        "kv_bytes_per_token": kv_bytes_per_token(spec, KV_ELEMENT_BYTES),
        "context_limit": spec.context_limit,
        "source": f"huggingface.co/{origin.repository}",
        "licence_of_weights": origin.licence,
        **({"note": origin.note} if origin.note else {}),
    }


def print_models(facts: Facts, stream: TextIO) -> None:
    """Print what ``models`` gives."""
    console = console_on(stream)
    for model in facts["models"]:
        heading(console, model["name"], f"wse run {model['name']}")
        heads = f"{model['head_count']} heads of {model['head_size']}, {model['kv_head_count']} with keys of their own"
        rows = [
            ("family", model["family"]),
            ("size", f"{count(model['parameters'])} parameters in {model['dtype']}"),
            ("layers", f"{model['layer_count']} of width {model['hidden_size']}, {heads}"),
            ("feed-forward", f"width {model['ffn_size']}"),
            ("vocabulary", f"{count(model['vocab_size'])} tokens"),
            ("context", f"{count(model['context_limit'])} tokens"),
            ("source", f"this project's own, see {shown(model['folder'])}/README.md"),
        ]
        lines(console, rows)
    heading(console, "Configurations", "without weights: wse estimate NAME, wse compile NAME")
    table = plain_table(header=True)
    for column in ("name", "size", "layers", "hidden", "experts", "KV/token", "context"):
        table.add_column(column, no_wrap=True, justify="left" if column == "name" else "right")
    for model in facts["configurations"]:
        experts = model.get("experts")
        table.add_row(
            model["name"],
            _parameters(model["parameters"]),
            count(model["layer_count"]),
            count(model["hidden_size"]),
            f"{experts['active']}/{experts['count']}" if experts else "",
            in_bytes(model["kv_bytes_per_token"]),
            count(model["context_limit"]),
        )
    show(console, table)
    console.print()
    console.print("Experts: of a token / of a layer. KV: 16-bit elements. wse models --json names each one's source.")
    console.print()
    families = ", ".join(facts["families"])
    console.print(
        f"Hugging Face folders and GGUF files run too: wse run FOLDER|FILE.gguf, its model_type one of {families}"
    )


def _parameters(number: int) -> str:
    """Parameters with three digits that matter."""
    return f"{number / 1e9:.3g} B" if number >= 1e9 else f"{number / 1e6:.3g} M"


def wafers() -> Facts:
    """The wafer presets and the software profiles, each number with unit, grade and source.

    ``announced``: the wafers that nobody has measured.
    """
    return {
        "announced": [name for name in known_wafers() if load_wafer(name).announced],
        "wafers": {name: _numbers(name) for name in known_wafers()},
        "software": {name: _numbers(name) for name in known_software()},
    }


def one(name: str) -> Facts:
    """One wafer or software profile, bundled or from a file. Errors as of ``load_wafer``."""
    numbers = _numbers(name)
    is_wafer = numbers.keys() == numeric_fields(WaferSpec).keys()
    return {"name": name, **({"announced": load_wafer(name).announced} if is_wafer else {}), "numbers": numbers}


def _numbers(name: str) -> Facts:
    """Unit, grade, source of each number, and its range where it has one."""
    return {
        key: {field: value for field, value in dataclasses.asdict(source).items() if value is not None}
        for key, source in provenance(name).items()
    }


def print_wafers(facts: Facts, stream: TextIO) -> None:
    """Print what ``wafers`` gives, in short."""
    console = console_on(stream)
    heading(console, "Wafers", "wse wafers NAME shows every number with its source")
    table = plain_table(header=True)
    for column in ("name", "mesh", "PEs", "SRAM a PE", "SRAM in all", "clock", "wafer to wafer"):
        table.add_column(column, no_wrap=True, justify="left" if column == "name" else "right")
    for name in facts["wafers"]:
        w = load_wafer(name)
        pes = w.mesh_rows * w.mesh_cols
        table.add_row(
            f"{name} *" if w.announced else name,
            f"{w.mesh_rows}x{w.mesh_cols}",
            count(pes),
            f"{w.sram_bytes_per_pe / 1024:g} KiB",
            in_bytes(w.sram_bytes_per_pe * pes),
            hertz(w.clock_hz),
            f"{in_bytes(w.wafer_link_bytes_per_s)}/s",
        )
    show(console, table)
    console.print(f"  * {ANNOUNCED}")
    heading(console, "Software profiles", "what launches, loops and messages cost; --software NAME")
    table = plain_table(header=True)
    shown_keys = ("code_bytes_per_pe", "task_dispatch_cycles", "vector_issue_cycles", "reduce_gap_cycles")
    table.add_column("name", no_wrap=True)
    for key in shown_keys:
        table.add_column(key.replace("_", " "), justify="right")
    for name, numbers in facts["software"].items():
        table.add_row(name, *(count(numbers[key]["value"]) for key in shown_keys))
    show(console, table)


def print_one(facts: Facts, stream: TextIO) -> None:
    """Print every number of one wafer or software profile."""
    console = console_on(stream)
    heading(console, shown(facts["name"]), GRADES)
    if facts.get("announced"):
        console.print(ANNOUNCED)
    table = plain_table(header=True)
    table.add_column("number", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("source")
    for key, number in facts["numbers"].items():
        value = number["value"]
        table.add_row(key, f"{value:,.12g}", number["grade"], shown(number["source"]))
    show(console, table)


def mappings() -> Facts:
    """The mapping strategies, the bundled ones first."""
    keys = ("name", "summary", "source", "regions")
    return {"mappings": [{key: getattr(strategy, key) for key in keys} for strategy in strategies().values()]}


def print_mappings(facts: Facts, stream: TextIO) -> None:
    """Print what ``mappings`` gives."""
    console = console_on(stream)
    for strategy in facts["mappings"]:
        heading(console, strategy["name"], f"--mapping {strategy['name']}")
        lines(console, [("does", strategy["summary"]), ("source", strategy["source"])])
