"""What ``wse estimate`` refuses: one line that names the thing, the value and the remedy; exit 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_config


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A model of four layers made for 512 tokens, without weights."""
    return write_config(tmp_path, max_position_embeddings=512, num_hidden_layers=4)


COUNTS = ["--wafers", "--prompt-len", "--new-tokens", "--batch", "--context"]
HUGE = "9" * 40


@pytest.mark.parametrize("option", COUNTS)
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1.5", "", HUGE, "1e3", "-" + HUGE])
def test_a_count_that_is_none(wse: Wse, config: Path, option: str, value: str) -> None:
    line = wse("estimate", config, "--mesh", "8x8", option, value).refusal()
    assert option in line
    assert value[:9] in line
    assert any(remedy in line for remedy in ("give", "choose", "--help")), line


OPTIONS: list[tuple[list[str], list[str]]] = [
    (
        ["--prompt-len", "500", "--new-tokens", "13"],
        ["--prompt-len 500 --new-tokens 13", "513 tokens", "at most 512 together"],
    ),
    (["--context", "513"], ["--context 513", "512"]),
    (["--prompt-len", "8", "--new-tokens", "8", "--context", "15"], ["16 tokens", "--context 15", "at most 15"]),
    (["--verify-tokens", "1"], ["--verify-tokens 1", "the prompt leaves 8 of 16 tokens", "give 2 to 8"]),
    (["--verify-tokens", "9"], ["--verify-tokens 9", "give 2 to 8"]),
    (["--prompt-len", "8", "--new-tokens", "1", "--verify-tokens", "2"], ["leaves 1 of 9", "give a longer --context"]),
    (["--batch", "4097"], ["--batch 4097", "at most 4,096"]),
    (["--users", "1000001"], ["--users 1000001", "at most 1,000,000"]),
    (["--users", "2", "--batch", "4"], ["--users 2: a pass has --batch 4 of them", "give no fewer users"]),
    (["--objective", "speed"], ["--objective: unknown objective 'speed'", "known: cost, latency, throughput"]),
    (["--capacity", "reprot"], ["capacity 'reprot'", "did you mean 'report'?"]),
    (["--mapping", "regoin"], ["'regoin'", "did you mean 'region'?"]),
    (["--software", "prodction"], ["'prodction'", "did you mean 'production'?"]),
    (["--mesh", "0x8"], ["'0x8'", "ROWSxCOLS"]),
    (["--mesh", "-8x8"], ["'-8x8'", "ROWSxCOLS"]),
    (["--mesh", "nanx8"], ["'nanx8'", "ROWSxCOLS"]),
    (["--mesh", "8x9999999999"], ["8x9999999999", "1 to 10,000"]),
    (["--mesh", "1171x755"], ["1171x755", "wse3", "1170x755"]),
    (["--region", "0x0"], ["'0x0'", "ROWSxCOLS"]),
    (["--wafers", "5"], ["--wafers 5", "at least one layer", "has 4", "at most 4"]),
    (["--economics", "none.toml"], ["none.toml", "does not exist"]),
    (["--trace", "no/folder/e.h5"], ["no/folder/e.h5", "no/folder is not a folder", "--trace none"]),
    (["--sensitivty"], ["unknown option '--sensitivty'", "did you mean '--sensitivity'?"]),
]


@pytest.mark.parametrize(("options", "says"), OPTIONS, ids=[" ".join(o)[:48] for o, _ in OPTIONS])
def test_an_option_that_cannot_be(wse: Wse, config: Path, options: list[str], says: list[str]) -> None:
    mesh = [] if "--mesh" in options else ["--mesh", "8x8"]
    lengths = [] if "--prompt-len" in options else ["--prompt-len", "8", "--new-tokens", "8"]
    line = wse("estimate", config, *mesh, *lengths, *options).refusal()
    assert [part for part in says if part not in line] == [], line


GEOMETRY: dict[str, list[Any]] = {
    "mesh_rows": [0, -4, "nan", 100_000, 2.5],
    "mesh_cols": [0, -4, "inf", 10**12],
    "sram_bytes_per_pe": [0, -1, "nan", 2**40, 3072],
    "clock_hz": [0, -8.5e8, "nan", "inf", 1e15],
    "hop_cycles": [0, -1, "nan", 1e9],
    "wafer_link_bytes_per_s": [0, -1, "nan", "inf"],
    "wafer_link_latency_s": [-1e-6, "nan", "inf"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in GEOMETRY.items() for value in values])
def test_a_wafer_that_cannot_be(wse: Wse, config: Path, tmp_path: Path, key: str, value: object) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'base = "wse3"\n{key} = {value}\n')
    line = wse("estimate", config, "--wafer", file).refusal()
    assert "mine.toml" in line
    assert key in line


def test_too_few_wafers_say_how_many_and_how_many_bytes(wse: Wse, tmp_path: Path) -> None:
    big = write_config(tmp_path, hidden_size=64, intermediate_size=256, num_hidden_layers=16, vocab_size=64)
    options = ("--mesh", "5x5", "--prompt-len", "8", "--new-tokens", "8", "--schedule", "baseline")
    few = wse("estimate", big, *options, "--wafers", "1").refusal()
    assert "too many: code" in few
    needed = int(few.split("--wafers ")[1].split(",")[0])
    assert needed > 1
    assert wse("estimate", big, *options, "--wafers", needed).code == 0
    less = wse("estimate", big, *options, "--wafers", needed - 1)
    assert less.code == 2
    auto = wse("estimate", big, *options, "--json")
    assert f'"wafers": {needed}' in auto.out


def test_what_fits_no_number_of_wafers_says_so(wse: Wse, tmp_path: Path) -> None:
    """A single product that is too large for all PEs of a wafer."""
    wide = write_config(tmp_path, hidden_size=512, intermediate_size=4096, num_hidden_layers=2, vocab_size=64)
    line = wse("estimate", wide, "--mesh", "3x3", "--prompt-len", "8", "--new-tokens", "8").refusal()
    assert "of each of 2 wafers" in line
    assert "too large for a PE even alone" in line
    assert "no number of wafers up to 2 can store it" in line
    assert "--mesh" in line
