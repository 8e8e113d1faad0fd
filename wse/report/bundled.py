"""What comes with wse: models, wafers, software profiles and mappings, with their sources."""

from __future__ import annotations

import dataclasses
from typing import Any, TextIO

from wse.hardware.load import known_software, known_wafers, load_wafer, provenance
from wse.models.config import FAMILIES
from wse.models.load import BUNDLED, load_model
from wse.models.tensors import parameter_count
from wse.report.terminal import console_on, count, heading, hertz, in_bytes, lines, plain_table, show, shown
from wse_mappings.recipe import recipes

GRADES = "M measured, V stated by the vendor, D derived, I inferred, R reported second-hand, U by the user"

Facts = dict[str, Any]


def models() -> Facts:
    """The bundled models: shape, size, and the folder they are in; and the families (``model_type``) that are read."""
    found = []
    for name in BUNDLED:
        loaded = load_model(name)
        spec = dataclasses.asdict(loaded.spec) | {"layer_count": loaded.spec.layer_count}
        found.append({**spec, "name": name, "parameters": parameter_count(loaded.spec), "folder": str(loaded.path)})
    return {"models": found, "families": sorted(FAMILIES)}


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
    console.print()
    families = ", ".join(facts["families"])
    console.print(
        f"Hugging Face folders and GGUF files run too: wse run FOLDER|FILE.gguf, its model_type one of {families}"
    )


def wafers() -> Facts:
    """The wafer presets and the software profiles, each number with unit, grade and source."""
    return {
        "wafers": {name: _numbers(name) for name in known_wafers()},
        "software": {name: _numbers(name) for name in known_software()},
    }


def one(name: str) -> Facts:
    """One wafer or software profile, bundled or from a file. Errors as of ``load_wafer``."""
    return {"name": name, "numbers": _numbers(name)}


def _numbers(name: str) -> Facts:
    return {key: dataclasses.asdict(source) for key, source in provenance(name).items()}


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
            name,
            f"{w.mesh_rows}x{w.mesh_cols}",
            count(pes),
            f"{w.sram_bytes_per_pe / 1024:g} KiB",
            in_bytes(w.sram_bytes_per_pe * pes),
            hertz(w.clock_hz),
            f"{in_bytes(w.wafer_link_bytes_per_s)}/s",
        )
    show(console, table)
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
    """The mapping recipes."""
    return {"mappings": [dataclasses.asdict(recipe) for recipe in recipes().values()]}


def print_mappings(facts: Facts, stream: TextIO) -> None:
    """Print what ``mappings`` gives."""
    console = console_on(stream)
    for recipe in facts["mappings"]:
        heading(console, recipe["name"], f"--mapping {recipe['name']}")
        lines(console, [("does", recipe["summary"]), ("source", recipe["source"])])
