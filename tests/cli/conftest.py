"""Fixtures of the command-line tests: call `wse` as a function in an empty working directory."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from tests.models.helpers import write_config, write_model
from tests.support.measurement_rows import GOOD, file_of
from tests.traces.conftest import write
from wse.cli import main


@dataclass(frozen=True)
class Outcome:
    """Exit status and output of a command.

    Attributes:
        code: Exit status.
        out: Text on standard output.
        err: Text on standard error.
    """

    code: int
    out: str
    err: str

    def refusal(self) -> str:
        """Check that the command was refused, and return its error message.

        A refused command exits with status 2, prints nothing on standard output, and prints one line on standard
        error. Progress lines may precede the message if the command took longer than a second.
        """
        assert self.code == 2, self
        assert self.out == "", self
        error = re.sub(r"\A([\w ]+(\.\.\.|: \d+ of \d+, .* left)\n)*", "", self.err)
        assert error.startswith("wse: "), self
        assert error.endswith("\n"), self
        line = error[:-1]
        assert line.isprintable(), repr(line)
        return line


Wse = Callable[..., Outcome]
GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1" / "story.h5"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new, empty folder and return it; set the terminal width to 80 columns."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture
def wse(empty: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Wse:
    """Return a function that runs a command line in this process, on one core and without worker processes."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Write a model with two layers and 16 token ids, without a tokenizer, and return its folder."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    return write_model(folder)


@pytest.fixture(scope="module")
def full_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace in which every table has rows."""
    return write(tmp_path_factory.mktemp("full_trace") / "t.h5")


@pytest.fixture
def trace(full_trace: Path, empty: Path) -> str:
    """Copy `full_trace` to the working directory and return its name."""
    shutil.copy(full_trace, empty / "t.h5")
    return "t.h5"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, full_trace: Path) -> Path:
    """Return a folder with the files named in ``data/refusals.txt``: models, valid and damaged traces, and tables."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tiny").mkdir()
    write_model(folder / "tiny")
    write_config(folder, max_position_embeddings=512, num_hidden_layers=4).rename(folder / "four.json")
    for name in ("folder.h5", "folder.md"):
        (folder / name).mkdir()
    shutil.copy(GOLDEN, folder / "story.h5")
    for name in ("t.h5", "newer.h5", "lacks.h5"):
        shutil.copy(full_trace, folder / name)
    with h5py.File(folder / "newer.h5", "r+") as file:
        file.attrs.modify("version", 3)
    with h5py.File(folder / "lacks.h5", "r+") as file:
        del file["steps/cycles"], file["graph/edges/src"]
        file["steps/op"][2] = 77
        file["placement/stages/rows"][1] = 100
    with h5py.File(folder / "other.h5", "w") as file:
        file["x"] = [1]
    content = full_trace.read_bytes()
    (folder / "cut.h5").write_bytes(content[: len(content) // 2])
    (folder / "text.h5").write_text("no trace at all")
    (folder / "gpu.toml").write_text('base = "h100"\nhbm_bytes_per_s = 4e12\n')
    (folder / "good.csv").write_text(file_of(GOOD), newline="")
    (folder / "bad.csv").write_text(file_of(GOOD, {**GOOD, "grid_w": "1e9"}), newline="")
    (folder / "p").write_text("a\n")
    return folder


def files_below(folder: Path) -> set[str]:
    """Return the relative paths of all files and folders below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def without_options(start: str, added: str) -> str:
    """Return the start of a command line without the options, and their values, that ``added`` gives again."""
    names = [word for word in added.split() if word.startswith("--")]
    pattern = "|".join(rf" {name} [^-]\S*(?= |$)" for name in names)
    return re.sub(pattern, "", start) if names else start
