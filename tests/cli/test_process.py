"""Tests of `wse` as a separate process: imported libraries, signals, closed pipes and full disks."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse
from wse.cache.store import FOLDER_VARIABLE
from wse_traces.reader.read import open_trace

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    "COLUMNS": "80",
    "NUMBA_NUM_THREADS": "1",
}
WSE = [sys.executable, "-m", "wse"]
PLACED = ("--mesh", "14x14", "--mapping", "region", "--schedule", "baseline", "--dtype", "float32")
TRACE = Path(__file__).parents[2] / "traces/golden/v1/story.h5"


def restore_default_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``wse`` as a process that SIGINT interrupts.

    A shell makes background jobs ignore SIGINT, and processes that the tests start would inherit that.
    """
    return subprocess.Popen(
        [*WSE, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=None if sys.platform == "win32" else restore_default_sigint,
        **options,
    )


LIBRARIES = {
    *("h5py", "jinja2", "matplotlib", "networkx", "numba", "numpy", "pydantic", "ray", "rich"),
    *("rich.progress", "tokenizers"),
}
"""Libraries that are slow to import. typer imports pydantic to check the types of options."""

FOR_TABLES = {"numpy", "pydantic", "rich"}
FOR_PLACEMENT = {*FOR_TABLES, "networkx"}
FOR_TRACES = {*FOR_TABLES, "h5py"}


@pytest.mark.parametrize(
    ("commands", "needed"),
    [
        (["--help"], set()),
        (["", "--version", "run --help", "no-such-command"], {"pydantic"}),
        pytest.param(["wafers wse2", "mappings --json"], FOR_TABLES, marks=pytest.mark.slow),
        pytest.param(["models"], {*FOR_TABLES, "tokenizers"}, marks=pytest.mark.slow),
        (["inspect {trace}", "inspect {trace} --links --json", "export {trace} --to csv --what token"], FOR_TRACES),
        (
            [
                "compile {model} --mesh 2x2 --mapping region --schedule baseline",
                "estimate {model} --mesh 2x2 --mapping region --schedule baseline --prompt-len 4 --new-tokens 4 --json",
            ],
            FOR_PLACEMENT,
        ),
        pytest.param(["view {trace} -o view.html"], {*FOR_TRACES, "jinja2", "matplotlib"}, marks=pytest.mark.slow),
    ],
    ids=lambda value: value[0].partition(" ")[0] if isinstance(value, list) else "",
)
def test_command_imports_only_the_libraries_it_needs(
    commands: list[str], needed: set[str], tiny: Path, tmp_path: Path
) -> None:
    lines = [command.format(trace=TRACE, model=tiny).split() for command in commands]
    code = (
        f"import sys; from wse.cli import main; print([main(line) for line in {lines!r}], file=sys.stderr);"
        f"print(*({LIBRARIES!r} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, check=True, text=True
    )
    *_, codes, loaded = done.stderr.splitlines()
    assert codes == str([2 if "no-such" in command else 0 for command in commands]), done.stderr
    assert set(loaded.split()) <= needed


def test_reading_a_cached_estimate_imports_neither_the_compiler_nor_the_fabric_model(
    wse: Wse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    line = "estimate story --mesh 8x8 --mapping region --schedule baseline --json"
    computed = wse(*line.split())
    libraries = {"networkx", "wse.compiler.pipeline", "wse.backends.fabric.model"}
    assert libraries <= sys.modules.keys()
    code = (
        f"import sys; from wse.cli import main; main({line.split()!r});"
        f"print(*({libraries!r} & sys.modules.keys()), file=sys.stderr)"
    )
    environment = ENVIRONMENT | {FOLDER_VARIABLE: str(tmp_path / "cache")}
    cached = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert cached.stdout == computed.out
    assert cached.stderr == "\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child")
def test_ctrl_c_is_quiet_and_leaves_a_readable_trace(tmp_path: Path) -> None:
    process = start(tmp_path, "run", *PLACED, "--new-tokens", "900", "--weights", "random:0")  # ends late
    process.stdout.read(100)  # enough output that the run is generating tokens
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    with open_trace(tmp_path / "wse-run.h5.partial") as trace:
        assert (trace.complete, trace.ending) == (False, "interrupted")
        assert trace.rows("token") > 0


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of this kind")
def test_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    process = start(tmp_path, "wafers", "wse2")
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of this kind")
def test_run_with_a_closed_pipe_completes_its_trace(tmp_path: Path) -> None:
    """``wse run | head -1`` closes the pipe after the first line; the trace must still be completed."""
    process = start(tmp_path, "run", *PLACED, "--new-tokens", "24")
    process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=60) == 0, err
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["wse-run.h5"]
    with open_trace(tmp_path / "wse-run.h5") as trace:
        assert trace.complete
        assert len(trace.report()["tokens"]) == 24


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_on_standard_output_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "wse", "wafers"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "wse: no space left on the device: free some, or write elsewhere\n"
