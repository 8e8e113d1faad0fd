"""Lists of bundled GPUs and serving stacks, with a source for each number."""

from __future__ import annotations

from typing import Final, TextIO

from wse.errors import UnknownName
from wse.files import names_toml_file
from wse.reports.table import Column, Table, number
from wse.reports.terminal import console_on, printable
from wse.reports.terminal_table import print_table
from wse.serving.economics import load_gpu_economics
from wse.serving.gpus.load import GPU_PRESETS, STACK_PRESETS, known_gpus, known_stacks, load_gpu
from wse.studies.bundled_result import GpuResult, GpusResult, Numbers, StackResult
from wse.studies.catalogue import constant_range, number_results, print_numbers

TERA: Final = 1e12
GIGA: Final = 1e9
GIB: Final = 2**30


def gpus() -> GpusResult:
    """Return the constants of all bundled GPUs and serving stacks.

    Each constant has a unit, a source, and a grade that states how reliable it is.
    """
    return GpusResult(
        gpus={name: _gpu_numbers(name) for name in known_gpus()},
        stacks={name: _stack(name) for name in known_stacks()},
    )


def gpu(name: str) -> GpuResult:
    """Return the constants of one GPU, or of one serving stack such as vLLM.

    Args:
        name: Name of a bundled serving stack or GPU, or path to a GPU's TOML file.

    Raises:
        UnknownName: No GPU or stack has this name. The message suggests the closest name.
        BadWafer: The file cannot be used.
    """
    if name.casefold() in known_stacks():
        return GpuResult.from_parts(_stack(name), name=name)
    if name.casefold() not in known_gpus() and not names_toml_file(name):
        raise UnknownName("GPU or stack", name, (*known_gpus(), *known_stacks()))
    return GpuResult(name=name, numbers=_gpu_numbers(name))


def _gpu_numbers(name: str) -> Numbers:
    """Return the constants of a GPU, followed by its power and price if both are known."""
    economics = load_gpu_economics(load_gpu(name))
    return number_results(GPU_PRESETS.read(name).numbers) | (
        {} if economics is None else number_results(economics.sources)
    )


def _stack(name: str) -> StackResult:
    texts, numbers = STACK_PRESETS.read(name)
    return StackResult(title=texts["title"], fitted_on=texts["fitted_on"], numbers=number_results(numbers))


def print_gpus(content: GpusResult, stream: TextIO) -> None:
    """Print two summary tables: the bundled GPUs and the bundled serving stacks."""
    console = console_on(stream)
    columns = (
        Column(key="name", title="name"),
        number("hbm_bytes", "HBM", lambda size: f"{size / GIB:.0f} GiB"),
        number("hbm_bytes_per_s", "of HBM", lambda rate: f"{rate / TERA:.4g} TB/s"),
        number("bf16_flops_per_s", "16 bits", _teraflops),
        number("fp8_flops_per_s", "8 bits", _teraflops),
        number("fp4_flops_per_s", "4 bits", _teraflops),
        number("link_bytes_per_s", "GB/s", lambda rate: f"{rate / GIGA:g}"),
        number("board_power_w", "board", lambda power: f"{power:g} W"),
        number("gpu_usd_per_hour", "USD/h", lambda price: f"{price:g}"),
        number(
            "price_range",
            "price range",
            cell=lambda row: constant_range(content.gpus[row["name"]]["gpu_usd_per_hour"]),
            priority=1,
        ),
    )
    rows = [{"name": name, **{key: found.value for key, found in gpu.items()}} for name, gpu in content.gpus.items()]
    note = "matrix products in Tflop/s, dense; GB/s of links one way; wse gpus NAME shows every number with its source"
    print_table(console, Table(columns=columns, rows=rows, title="GPUs", note=note))
    keys = ("bandwidth_ratio", "expert_ratio", "compute_ratio")
    stacks = [
        {"name": name, "title": stack.title, **{key: stack.numbers[key].value for key in keys}}
        for name, stack in content.stacks.items()
    ]
    ratios = (number(key, key.replace("_", " "), wraps=True, min_width=0) for key in keys)
    table = Table(
        columns=(Column(key="name", title="name"), Column(key="title", title="software", wraps=True), *ratios),
        rows=stacks,
        title="Serving stacks",
        note="shares of what is stated that they reach; --stack NAME",
    )
    print_table(console, table)


def _teraflops(rate: float) -> str:
    return f"{rate / TERA:,.0f}" if rate else "-"


def print_gpu(content: GpuResult, stream: TextIO) -> None:
    """Print all constants of one GPU or serving stack as a table with grades and sources."""
    texts = (content.title, content.fitted_on and f"fitted on: {content.fitted_on}")
    notes = (printable(text) for text in texts if text is not None)
    print_numbers(content.name, content.numbers, notes, stream, units=(Column(key="unit", title="unit"),))
