"""Measure how the emulation's time grows with its size, and write docs/performance.md.

    python tests/benchmarks/growth.py --output docs/performance.md

Each series varies one number (PEs, layers, context, users or wafers) of a small model with random
weights. In every round, each emulation of a series decodes one token, so that other programs on the
machine affect all of them equally. For each round, a line is fitted to the logarithms of the times
by least squares; its slope is the exponent. The page shows medians and interquartile ranges over the
rounds.

Other scripts, such as whole_wafer.py and booksim.py, write sections of the page with ``--section
FILE``. ``--sections FILE...`` appends these sections to the page. With ``--keep``, the series are
not measured again, and only the sections are replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MODEL: Final = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 2048,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}
BASE: Final[dict[str, int]] = {"side": 64, "layers": 4, "context": 16, "users": 1, "wafers": 1}
SERIES: Final[dict[str, tuple[int, ...]]] = {
    "side": (32, 64, 128, 256, 512),
    "layers": (2, 4, 8, 16, 32),
    "context": (64, 128, 256, 512, 1024),
    "users": (1, 2, 4, 8, 16),
    "wafers": (1, 2, 4),
}
MEANINGS: Final = {
    "side": ("PEs on a side", "With 2, the time would be proportional to the PE count"),
    "layers": ("layers", "With 1, the time would be proportional to the layer count"),
    "context": ("tokens in the cache", "With 0, the time would not depend on the KV cache"),
    "users": ("users", "With 1, the time would be proportional to the user count; a pass decodes one token per user"),
    "wafers": ("wafers", "With 0, the time would not change; wafers work one after another"),
}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Times per token for several values of one number, such as the number of layers.

    Attributes:
        name: Name of the number, a key of ``SERIES``.
        values: Values of the number.
        s: Seconds per token, float64 ``[rounds, values]``.
    """

    name: str
    values: tuple[int, ...]
    s: npt.NDArray[np.float64]

    @property
    def exponents(self) -> npt.NDArray[np.float64]:
        """Exponent of the growth in each round, float64 ``[rounds]``.

        The time is proportional to the number to the power of the exponent.
        """
        return np.polyfit(np.log(self.values), np.log(self.s).T, 1)[0]

    @property
    def last_exponent(self) -> float:
        """Exponent of the growth between the medians of the last two values."""
        before, last = np.median(self.s[:, -2:], axis=0)
        return float(np.log(last / before) / np.log(self.values[-1] / self.values[-2]))


def measure(name: str, values: Sequence[int], rounds: int, folder: Path) -> Growth:
    """Measure the time per token for several values of one number.

    Args:
        name: Name of the number, a key of ``SERIES``. All others have their values in ``BASE``.
        values: Values of the number.
        rounds: Number of tokens that are timed for each value.
        folder: Folder for the model configurations.
    """
    engines = [_engine(BASE | {name: value}, folder / f"{name}-{value}") for value in values]
    seconds = np.zeros((rounds, len(values)))
    for row in range(-1, rounds):  # the first round is not counted
        for column, engine in enumerate(engines):
            began = time.perf_counter()
            engine.decode()
            seconds[row, column] = time.perf_counter() - began
    return Growth(name=name, values=tuple(values), s=seconds)


def _engine(numbers: dict[str, int], folder: Path) -> Any:
    """Return an emulation of the small model that has read its prompts.

    Args:
        numbers: Side of the mesh, layers, context, users and wafers.
        folder: Folder for the model configuration. It is created.
    """
    from prefilled_engine import prefilled_engine

    from wse.studies.options.option import make_request
    from wse.studies.run.request import RunRequest

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MODEL | {"num_hidden_layers": numbers["layers"]}))
    ids = tuple(3 + i % 1000 for i in range(numbers["context"]))
    request = make_request(
        RunRequest,
        model=folder / "config.json",
        weights="random:1",
        prompt_ids=(ids,) * numbers["users"],
        mesh=f"{numbers['side']}x{numbers['side']}",
        wafers=numbers["wafers"],
        mapping="region" if numbers["wafers"] == 1 else "pipeline",
        wafer="wse2",
        software="tuned",
        dtype="float16",
        new_tokens=64,
        schedule="baseline",
        trace=None,
    )
    return prefilled_engine(request)[0]


def page(series: Sequence[Growth], read_bytes_per_s: float) -> str:
    """Fill in the template of the page, growth.md, which lacks the sections of other scripts."""
    rows, exponents = [], []
    for growth in series:
        first = float(np.median(growth.s[:, 0]))
        title, meaning = MEANINGS[growth.name]
        for column, value in enumerate(growth.values):
            few, median, many = 1e3 * np.percentile(growth.s[:, column], (25, 50, 75))
            ratio = f"{median / first / 1e3:.2f}"
            rows.append(f"| {title} | {value:,} | {median:.2f} | {few:.2f} to {many:.2f} | {ratio} |")
        low, exponent, high = np.percentile(growth.exponents, (25, 50, 75))
        measured = f"**{exponent:.2f}** ({low:.2f} to {high:.2f}), at the end **{growth.last_exponent:.2f}**"
        exponents.append(f"- {title}: {measured}. {meaning}.")
    return filled_template(
        __file__,
        machine="\n".join(f"- {line}" for line in machine(read_bytes_per_s)),
        hidden=MODEL["hidden_size"],
        inner=MODEL["intermediate_size"],
        base=", ".join(f"{MEANINGS[name][0]}: {value}" for name, value in BASE.items()),
        rounds=len(series[0].s),
        rows="\n".join(rows),
        exponents="\n".join(exponents),
    )


def filled_template(script: str, **values: Any) -> str:
    """Return the text of the template of a script, the Markdown file beside it, with values filled in."""
    return Path(script).with_suffix(".md").read_text(encoding="utf-8").format(**values)


SECTIONS: Final = "\n<!-- sections of other programs -->\n"


def with_sections(series: str, sections: Sequence[Path]) -> str:
    """Return the text of the page with sections from files appended."""
    if not sections:
        return series
    return series + SECTIONS + "".join(f"\n{path.read_text(encoding='utf-8')}" for path in sections)


def machine(read_bytes_per_s: float) -> Iterator[str]:
    """Yield lines that describe this machine: processor, cores, memory bandwidth and libraries."""
    import numba

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    yield f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores for this process"
    yield f"memory read by all cores at {read_bytes_per_s / 1e9:.1f} GB/s during the measurements"
    yield f"Python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all series unless ``--keep`` is given, and print or write the page."""
    parser = argparse.ArgumentParser(description="Measure how the emulation's time grows.")
    parser.add_argument("--rounds", type=int, default=15, help="number of tokens that are timed for each value")
    parser.add_argument("--values", type=int, default=5, help="number of values per series, smallest first")
    parser.add_argument("--output", type=Path, help="file for the page, instead of printing it")
    parser.add_argument("--sections", type=Path, nargs="*", default=[], help="files with sections to append")
    parser.add_argument("--keep", action="store_true", help="keep the series in the page that --output names")
    asked = parser.parse_args(arguments)
    if asked.keep and asked.output is None:
        parser.error("--keep: give the page as --output")
    text = asked.output.read_text(encoding="utf-8").split(SECTIONS)[0] if asked.keep else measured_page(asked)
    text = with_sections(text, asked.sections)
    if asked.output is None:
        sys.stdout.write(text)
    else:
        asked.output.write_text(text, encoding="utf-8")


def measured_page(asked: argparse.Namespace) -> str:
    """Measure all series and return the text of the page without the sections of other scripts."""
    from wse.backends.execute.step_times import read_bytes_per_s

    series = []
    with tempfile.TemporaryDirectory() as folder:
        for name, values in SERIES.items():
            sys.stderr.write(f"{MEANINGS[name][0]}...\n")
            series.append(measure(name, values[: asked.values], asked.rounds, Path(folder)))
    return page(series, read_bytes_per_s(np.ones(2**26)))


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]
    main()
