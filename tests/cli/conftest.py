"""The command line called as a function, in an empty folder."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from tests.models.helpers import write_config, write_model
from tests.traces.conftest import write
from tests.validation.test_measurements import GOOD, file_of
from wse.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def refusal(self) -> str:
        """The one line of a user error, checked to be one: exit 2, nothing on stdout, no traceback.

        Where a command took a second, the lines of its progress stand before it.
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
    """An empty folder to stand in; the terminal is 80 columns wide."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture
def wse(empty: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Wse:
    """Call a command line on a machine of one core, where it starts no processes of its own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model of two layers and 16 tokens, without a tokenizer."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    return write_model(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with every table filled."""
    return write(tmp_path_factory.mktemp("written") / "t.h5")


@pytest.fixture
def trace(written: Path, empty: Path) -> str:
    """A copy of it here."""
    shutil.copy(written, empty / "t.h5")
    return "t.h5"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Path:
    """A folder with what the cases name: models, traces sound and not, tables good and bad, and folders."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tiny").mkdir()
    write_model(folder / "tiny")
    write_config(folder, max_position_embeddings=512, num_hidden_layers=4).rename(folder / "four.json")
    for name in ("folder.h5", "folder.md"):
        (folder / name).mkdir()
    shutil.copy(GOLDEN, folder / "story.h5")
    for name in ("t.h5", "newer.h5", "lacks.h5"):
        shutil.copy(written, folder / name)
    with h5py.File(folder / "newer.h5", "r+") as file:
        file.attrs.modify("version", 3)
    with h5py.File(folder / "lacks.h5", "r+") as file:
        del file["steps/cycles"], file["graph/edges/src"]
        file["steps/op"][2] = 77
        file["placement/stages/rows"][1] = 100
    with h5py.File(folder / "other.h5", "w") as file:
        file["x"] = [1]
    whole = written.read_bytes()
    (folder / "cut.h5").write_bytes(whole[: len(whole) // 2])
    (folder / "text.h5").write_text("no trace at all")
    (folder / "gpu.toml").write_text('base = "h100"\nhbm_bytes_per_s = 4e12\n')
    (folder / "good.csv").write_text(file_of(GOOD), newline="")
    (folder / "bad.csv").write_text(file_of(GOOD, {**GOOD, "grid_w": "1e9"}), newline="")
    (folder / "p").write_text("a\n")
    return folder


def files_below(folder: Path) -> set[str]:
    """All files, for a look at what was left behind."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
