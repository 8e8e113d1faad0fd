"""Time and memory of ``wse estimate``; ``pytest tests/benchmarks/test_estimate_speed.py -s`` prints them.

Goals: from a cold start of Python, imports included, on one core: Llama-3.1-405B on however many wafers it needs, and a
mixture of experts of 10^12 parameters, in 2 s and 1 GB each. How the time grows with layers, wafers and the area of the
mesh is printed as seconds beyond those of a model of one layer, which are imports for the most part, and as ratios.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cold_process import Cold, cold

from wse.models.bundled import CONFIGURATIONS

GOAL_S, GOAL_MB = 2.0, 1000
SMALL = ["--dtype", "int8", "--capacity", "report", "--prompt-len", "256", "--new-tokens", "256", "--json"]


def config(folder: Path, base: str, **changes: Any) -> str:
    """A config.json like a bundled one."""
    path = folder / f"{'-'.join(map(str, changes.values()))}.json"
    path.write_text(json.dumps(json.loads(CONFIGURATIONS[base].read_text()) | changes))
    return str(path)


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n    {line}")  # noqa: T201


def told(name: str, found: Cold) -> str:
    report = json.loads(found.out)
    model, wafers = report["model"], report["system"]["wafers"]
    return (
        f"{name}: {model['parameters'] / 1e9:,.0f}B parameters as {model['dtype']} on {wafers} wafers: "
        f"{found.cpu_s:.2f} s (goal {GOAL_S:.0f} s), {found.peak_mb:.0f} MB (goal {GOAL_MB} MB)"
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8"])
def test_405b(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, told("Llama-3.1-405B", cold("estimate", "llama-3.1-405b", "--dtype", dtype, "--json")))


def test_a_mixture_of_a_trillion_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 with half as many experts again and half the heads."""
    heads = {"num_attention_heads": 64, "num_key_value_heads": 64}
    model = config(tmp_path, "deepseek-v3", n_routed_experts=392, n_group=1, topk_group=1, **heads)
    show(capsys, told("Mixture", cold("estimate", model, "--dtype", "fp8", "--capacity", "report", "--json")))


def grown(capsys: pytest.CaptureFixture[str], what: str, sizes: dict[str, list[str]]) -> None:
    """Print the time of each of some requests, beyond that of a request with hardly any work."""
    idle_s = cold("estimate", "story", *SMALL, "--wafers", "1", "--mesh", "64x64").cpu_s
    beyond = {size: cold("estimate", *arguments, *SMALL).cpu_s - idle_s for size, arguments in sizes.items()}
    first = next(iter(beyond.values()))
    times = ", ".join(f"{size}: {seconds:.2f} s ({seconds / first:.1f})" for size, seconds in beyond.items())
    show(capsys, f"{what}, beyond {idle_s:.2f} s: {times}")


def test_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = {n: config(tmp_path, "llama-3-8b", num_hidden_layers=n) for n in (16, 32, 64, 128, 256)}
    grown(capsys, "layers on 8 wafers", {str(n): [model, "--wafers", "8"] for n, model in models.items()})


def test_wafers(capsys: pytest.CaptureFixture[str]) -> None:
    grown(capsys, "wafers of 405B", {str(n): ["llama-3.1-405b", "--wafers", str(n)] for n in (8, 16, 32, 64, 126)})


def test_mesh(capsys: pytest.CaptureFixture[str]) -> None:
    sides = (64, 128, 256, 512, 750)
    grown(capsys, "sides of the mesh", {str(n): ["llama-3-8b", "--wafers", "1", "--mesh", f"{n}x{n}"] for n in sides})
