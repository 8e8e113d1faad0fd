"""A run that is killed and goes on from its file: tokens, cycles, words and trace of one that was left alone."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from random_checkpoint import write_checkpoint
from tiers import slow_but

from wse.backends.execute.calls.bind import BoundPhase
from wse.backends.execute.engine import Engine
from wse.errors import BadInput
from wse.models.tensors.safetensors_file import open_safetensors, write_safetensors
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.answer import RunCallbacks
from wse.studies.run.checkpoint.checkpoint_file import CONTENT, content_digest
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run
from wse_traces import open_trace

TOKENS = 9
BY_PASS = ("phase", "ids", "kept", "pairs")
GOLDEN = Path(__file__).parents[2] / "data" / "formats" / "mxfp4.json"
STORY: dict[str, Any] = {"mesh": "8x24", "dtype": "float32", "prompt": "The cat sat. The cat sat. The cat"}
REQUESTS: dict[str, dict[str, Any]] = {
    "drawn": STORY | {"temperature": 0.8, "repetition_penalty": 1.2, "logits": True},
    "drafts": STORY | {"prompt": "She liked to play. She liked to play. She liked to", "verify_tokens": 3},
    "two users on two wafers": STORY | {"wafers": 2, "prompt": ("One day", "The little fox went out to play in")},
    "experts": {"prompt_ids": (3, 1, 4, 1, 5, 9, 2), "mesh": "6x6", "wafer": "wse3", "dtype": "float32"},
}


class KilledItem(Exception):
    """The error that ends a run here, where a signal would elsewhere."""


def named_request(name: str, folder: Path, **more: Any) -> RunRequest:
    asked = {"model": "story"} | REQUESTS[name]
    if name == "experts":
        asked["model"] = write_checkpoint(folder / "model", json.loads(GOLDEN.read_text(encoding="utf-8")))
    return make_request(RunRequest, **asked, new_tokens=TOKENS, trace=None, schedule="baseline", **more)


def facts(result: RunResult) -> dict[str, Any]:
    """All but what this computer's own time is."""
    return {key: value for key, value in result.to_dict().items() if key not in ("emulation", "trace")}


def killed_after(passes: int, request: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until so many passes were executed."""
    carry_out, done = Engine.run, []

    def run_some(engine: Engine, bound: BoundPhase) -> None:
        if len(done) == passes:
            raise KilledItem
        done.append(bound)
        carry_out(engine, bound)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "run", run_some)
        with pytest.raises(KilledItem):
            run(request)


@pytest.mark.parametrize("name", slow_but(REQUESTS, "drawn", "experts"))
def test_a_run_killed_twice_is_as_one_that_was_not(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = named_request(name, tmp_path)
    whole = run(replace_options(request, trace=tmp_path / "whole.h5"))
    kept = replace_options(request, checkpoint=tmp_path / "run.checkpoint", checkpoint_every=0)
    for passes in (3, 2):
        killed_after(passes, kept, monkeypatch)
    heard: list[str] = []
    resumed = run(replace_options(kept, trace=tmp_path / "resumed.h5"), RunCallbacks(on_text=heard.append))
    assert facts(resumed) == facts(whole)
    assert resumed.emulation.passes_again is not None
    assert resumed.emulation.passes_again >= 3
    assert "".join(heard) == (resumed.text or "")
    with open_trace(tmp_path / "whole.h5") as a, open_trace(tmp_path / "resumed.h5") as b:
        for column in ("links/words", "passes/start_cycle", "tokens/id"):
            np.testing.assert_array_equal(a.column(column), b.column(column))


def test_a_run_that_is_over_is_told_again_without_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = named_request("drawn", tmp_path, checkpoint=tmp_path / "run.checkpoint")
    first = run(request)
    monkeypatch.setattr(Engine, "run", None)
    again = run(request)
    assert facts(again) == facts(first)
    assert (first.emulation.passes_again, again.emulation.tokens_per_s) == (None, 0)


@pytest.fixture(scope="module")
def kept_request(tmp_path_factory: pytest.TempPathFactory) -> RunRequest:
    folder = tmp_path_factory.mktemp("kept")
    request = named_request("drafts", folder, checkpoint=folder / "run.checkpoint")
    run(request)
    return request


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mesh": "8x25"}, r"belongs to a Program with another digest \([0-9a-f]{12}, needed: [0-9a-f]{12}\); give"),
        ({"seed": 5}, "belongs to prompts, draws or weights with another digest"),
        ({"checkpoint_every": float("nan")}, "--checkpoint-every nan: is not a valid time; give a time of at least 0"),
    ],
)
def test_what_cannot_go_on_is_refused(
    kept_request: RunRequest, changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = Path(str(kept_request.checkpoints.checkpoint)).read_bytes()
    with pytest.raises(BadInput, match=message):
        run(replace_options(kept_request, **changes))
    assert Path(str(kept_request.checkpoints.checkpoint)).read_bytes() == before


def with_arrays(**changes: Any) -> Callable[[bytes], bytes]:
    """Changes the arrays of a file by name, None taking one away, and gives it the digest that goes with them."""

    def change(data: bytes) -> bytes:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.write_bytes(data)
            arrays = {name: entry.array() for name, entry in open_safetensors(path).items()}
        for name, change_array in changes.items():
            old = arrays.pop(name)
            if change_array is not None:
                arrays[name] = change_array(old.copy())
        arrays[CONTENT] = np.frombuffer(content_digest(arrays), np.uint8)
        stream = io.BytesIO()
        write_safetensors(stream, arrays)
        return stream.getvalue()

    return change


def with_element(value: int, *at: int) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    def change(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        array[at] = value
        return array

    return change


def with_bit_flipped(data: bytes) -> bytes:
    """The file with one bit of the caches' values changed."""
    length = int.from_bytes(data[:8], "little")
    at = 8 + length + json.loads(data[8 : 8 + length])["state.memory.0"]["data_offsets"][0]
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"Once upon a time", "is not a checkpoint of a run (.*claims a header of"),
        (lambda data: data[:-8], "is not a checkpoint of a run"),
        (lambda data: data.replace(b'"program"', b'"progran"'), r"is not a checkpoint of a run \(has no digest"),
        (with_bit_flipped, "is damaged .its arrays are not those of its digest.; give another name"),
        (with_arrays(kept=None), "is damaged .'kept'."),
        (with_arrays(**{"state.links": None}), "is damaged .links: is missing, needed: int64"),
        (with_arrays(**{"state.crossed": lambda old: old[0, 0]}), r"is damaged .crossed: int64 \[\], needed: int64"),
        (
            with_arrays(prompt_logits=lambda old: old.view(np.int32)),
            "is damaged .prompt_logits: int32 .*, needed: float32",
        ),
        (with_arrays(kept=lambda old: old[0]), r"is damaged .kept: int64 \[\], needed: int64"),
        (with_arrays(phase=lambda old: old[0]), r"is damaged .phase: int64 \[\], needed: int64"),
        (with_arrays(ids=with_element(1 << 40, 0, 0)), "is damaged .ids: has values outside -1 to"),
        (with_arrays(ids=lambda old: np.full_like(old, -1)), "is damaged .pass 0: has too few ids"),
        (with_arrays(phase=lambda old: np.roll(old, 1)), "is damaged .pass 0: a pass of verify is not in its place"),
        (with_arrays(kept=with_element(1, 1)), "is damaged .pass 1: keeps 1 tokens of a pass of decode"),
        (with_arrays(kept=with_element(0, 3)), "is damaged .pass 3: keeps 0 tokens of a pass of verify"),
        (
            with_arrays(**{name: lambda old: np.tile(old, (9, *(1,) * (old.ndim - 1))) for name in BY_PASS}),
            "is damaged .pass [0-9]+: a pass of prefill is not in its place",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(kept_request: RunRequest, change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.checkpoint"
    path.write_bytes(change(Path(str(kept_request.checkpoints.checkpoint)).read_bytes()))
    with pytest.raises(BadInput, match=message.replace("run (.*", r"run \(.*")):
        run(replace_options(kept_request, checkpoint=path, new_tokens=TOKENS))
