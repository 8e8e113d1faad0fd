"""Measurements of what large runs and sweeps need, for scale.py."""

from __future__ import annotations

import json
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

Figures = dict[str, float]

GIANT: Final = {"model": "llama-3.1-405b", "mesh": "1170x755", "mapping": "region", "wafers": 43, "software": "tuned"}
WIDTHS: Final = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
QUARTER: Final = 4
PROMPT: Final = tuple(range(3, 35))
NEW_TOKENS: Final = 32
STREAMS: Final = 4
SMALL: Final = {
    "model": "smollm2-135m",
    "weights": "random:1",
    "mesh": "103x103",
    "dtype": "float16",
    "mapping": "region",
    "wafer": "wse2",
    "software": "tuned",
    "schedule": "baseline",
    "wafers": 2,
    "prompt_ids": tuple(tuple(range(5, 13)) for _ in range(STREAMS)),
    "verify_tokens": 1,
    "trace": None,
}
SWEEP: Final = {"model": ("llama-3-8b",), "dtype": ("bfloat16", "fp8"), "batch": (1, 4, 16), "new_tokens": (512, 1024)}


def placed(rounds: int) -> Figures:
    """Compile the large model as `wse run` does, without running it.

    Returns:
        Number of wafers and layers, compile time, size of the Program (the compiled model), memory
        that the emulation of the wafers needs, and the maximum kB that a wafer sends to the next
        one per token.
    """
    from wse.backends.execute.host_memory.required_memory import required_bytes
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.run_totals import RunTotals
    from wse.studies.compile.choose import compile_program
    from wse.studies.options.option import make_request
    from wse.studies.run.prepare import prepare
    from wse.studies.run.request import RunRequest

    prepared = prepare(
        make_request(RunRequest, **GIANT, weights="random:1", prompt_ids=PROMPT, new_tokens=NEW_TOKENS, trace=None)
    )
    began = time.perf_counter()
    program = compile_program(prepared)
    compiled_s = time.perf_counter() - began
    clock = RunTotals(Fabric(program, prepared.wafer, prepared.software))
    clock.decode_token(len(PROMPT))
    crossed = {pair: size for pair, size in clock.decode.crossed.items() if -1 not in pair}
    of_wafers = [required_bytes(program, (wafer,)) for wafer in range(program.wafers)]
    return {
        "wafers": program.wafers,
        "compile_s": compiled_s,
        "program_mb": len(pickle.dumps(program)) / 1e6,
        "largest_wafer_gb": max(of_wafers) / 1e9,
        "all_wafers_gb": sum(of_wafers) / 1e9,
        "crossing_kb": max(crossed.values()) / 1e3,
        "layers": prepared.spec.layer_count,
    }


def layer(rounds: int) -> Figures:
    """Measure a layer of the large model, with all widths and the sides of the mesh divided by 4.

    Each PE then has as many weights as with the whole model. The time of a layer alone, without
    embedding and output head, follows from models with one and with three layers.

    Args:
        rounds: Number of decoded tokens that are timed.

    Returns:
        Time, bytes and bandwidth of a layer, also for the full widths; the speed of storing
        weights; the cores and the load of this machine.
    """
    from wse.models.catalogue import CONFIGURATIONS

    path = CONFIGURATIONS[GIANT["model"]]
    config = json.loads((path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8"))
    seconds: list[Figures] = []
    for layers in (1, 3):
        small = config | {name: config[name] // QUARTER for name in WIDTHS}
        small |= {"num_hidden_layers": layers, "vocab_size": 2048, "bos_token_id": 1, "eos_token_id": 2}
        seconds.append(_decoded(small, rounds))
    per_layer = {name: (seconds[1][name] - seconds[0][name]) / 2 for name in seconds[0]}
    return {
        "small_layer_ms": 1e3 * per_layer["s"],
        "layer_gb": QUARTER**2 * per_layer["gb"],
        "layer_s": QUARTER**2 * per_layer["s"],
        "layer_gb_per_s": per_layer["gb"] / per_layer["s"],
        "stored_gb_per_s": seconds[1]["gb"] / seconds[1]["store_s"],
        "cores": os.cpu_count() or 1,
        "load": os.getloadavg()[1],
    }


def _decoded(config: dict[str, Any], rounds: int) -> Figures:
    """Run a model with random weights on one wafer with a quarter of the sides.

    Args:
        config: Configuration of the model.
        rounds: Number of decoded tokens that are timed.

    Returns:
        GB of weights (``gb``), seconds to store them (``store_s``), and the minimum seconds per
        token (``s``).
    """
    from wse.backends.execute.engine import Engine
    from wse.studies.compile.choose import compile_program
    from wse.studies.options.option import make_request
    from wse.studies.run.prepare import prepare, weights_of
    from wse.studies.run.request import RunRequest

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        rows, cols = (int(side) // QUARTER for side in GIANT["mesh"].split("x"))
        asked = GIANT | {"model": Path(folder) / "config.json", "wafers": 1, "mesh": f"{rows}x{cols}"}
        request = make_request(
            RunRequest,
            **asked,
            weights="random:1",
            prompt_ids=PROMPT[:4],
            new_tokens=rounds + 2,
            schedule="baseline",
            trace=None,
        )
        prepared = prepare(request, to_run=True)
        program = compile_program(prepared)
        began = time.perf_counter()
        engine = Engine(program, prepared.spec, weights_of(request, prepared.loaded))
        stored_s = time.perf_counter() - began
    list(engine.prefill(*prepared.prompts))
    engine.decode()
    times = [_seconds(engine.decode) for _ in range(rounds)]
    tiles = [(tile, engine.arenas[tile.stage]) for tile in program.tiles]
    gb = sum(2 * tile.elements * arena.rows * arena.cols for tile, arena in tiles if tile.outer > 1) / 1e9
    return {"gb": gb, "store_s": stored_s, "s": min(times)}


def store(rounds: int) -> Figures:
    """Measure Ray, which distributes wafers over processes (actors).

    Args:
        rounds: A quarter of the number of repetitions.

    Returns:
        Seconds to start a cluster, memory of an actor without a wafer in MB, and milliseconds to
        send arrays of two sizes from one actor to the next.
    """
    from wse.studies.run.ray.wafer_actors import WaferActor
    from wse.studies.workers import ray_cluster

    began = time.perf_counter()
    with ray_cluster.ray_cluster(None):
        ray = ray_cluster.imported_ray()
        started_s = time.perf_counter() - began

        class Hop(WaferActor):
            def copy_tiles(self, tiles: Any) -> Any:
                return np.array(tiles)

            def memory_mb(self) -> float:
                import numba  # noqa: F401  # its import is measured

                from wse.backends.execute.engine_part import EnginePart  # noqa: F401  # its import is measured

                return _memory_mb("VmRSS")

        hops = [ray.remote(Hop).options(num_cpus=1).remote() for _ in range(2)]
        memory_mb = ray.get(hops[0].memory_mb.remote())
        found = {"start_s": started_s, "actor_mb": memory_mb}
        for name, size in (("32_kb", 32 << 10), ("4_mb", 4 << 20)):
            tiles = ray.put(np.ones(size, np.uint8))

            def send_around(first: Any = tiles) -> None:
                current = first
                for hop in (*hops, *hops):
                    current = hop.copy_tiles.remote(current)
                ray.wait([current])

            send_around()
            found[f"hop_{name}_ms"] = 1e3 * statistics.median(_seconds(send_around) for _ in range(4 * rounds)) / 4
    return found


def streams(rounds: int) -> Figures:
    """Measure the tokens/s of several users of a small model on two wafers.

    Args:
        rounds: Number of repetitions.

    Returns:
        Best rates of one process with all cores, of one process with one core, and of two Ray
        actors, and the median speedup of the actors over one core.
    """
    import numba

    from wse.studies.options.option import make_request
    from wse.studies.run.request import RunRequest
    from wse.studies.run.study import run
    from wse.studies.workers.ray_cluster import ray_cluster

    rates: dict[str, list[float]] = {"all_cores": [], "one_core": [], "ray": []}
    all_cores = numba.get_num_threads()
    with ray_cluster(None):
        for _ in range(rounds):
            for name, found in rates.items():
                numba.set_num_threads(1 if name == "one_core" else all_cores)
                engine = "ray" if name == "ray" else "local"
                found.append(run(make_request(RunRequest, **SMALL, new_tokens=4, engine=engine)).emulation.tokens_per_s)
    speedups = [there / here for here, there in zip(rates["one_core"], rates["ray"], strict=True)]
    best = {f"{name}_tokens_per_s": max(found) for name, found in rates.items()}
    return {**best, "actors_speedup": statistics.median(speedups)}


def settings(rounds: int) -> Figures:
    """Estimate all settings of a small sweep in this process.

    Returns:
        Mean processor seconds per setting (without the first), mean size of a journal row in kB,
        and peak memory of this process in MB.
    """
    from wse.studies.sweep.grid import Axis, Grid
    from wse.studies.sweep.row import estimate_setting

    grid = Grid(tuple(Axis(name, values) for name, values in SWEEP.items()))
    entries, seconds = [], []
    for setting in range(len(grid)):
        began = time.process_time()
        entries.append(estimate_setting(setting, grid.request(setting))[0])
        seconds.append(time.process_time() - began)
    assert not any(entry.error for entry in entries), entries
    return {
        "setting_s": statistics.mean(seconds[1:]),
        "row_kb": statistics.mean(len(entry.line()) for entry in entries) / 1e3,
        "worker_mb": _memory_mb("VmHWM"),
    }


def _memory_mb(field: str) -> float:
    """Return a field of /proc/self/status in MB (1,024 kB), such as VmRSS. Needs Linux."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def _seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


MEASURES: Final[dict[str, Callable[[int], Figures]]] = {
    "placed": placed,
    "layer": layer,
    "store": store,
    "streams": streams,
    "settings": settings,
}
