"""A run that is killed and goes on from its file: tokens, cycles, words and trace of one that was left alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import write_checkpoint
from tiers import slow_but

from wse.errors import BadInput
from wse.execute.bind import BoundPhase
from wse.execute.engine import Engine
from wse.request.run_request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.run import run
from wse_traces import open_trace

TOKENS = 9
GOLDEN = Path(__file__).parents[2] / "data" / "formats" / "mxfp4.json"
STORY: dict[str, Any] = {"mesh": "8x24", "dtype": "float32", "prompt": "The cat sat. The cat sat. The cat"}
REQUESTS: dict[str, dict[str, Any]] = {
    "drawn": STORY | {"temperature": 0.8, "repetition_penalty": 1.2, "logits": True},
    "drafts": STORY | {"verify_tokens": 3},
    "two users on two wafers": STORY | {"wafers": 2, "prompt": ("One day", "The little fox went out to play in")},
    "experts": {"prompt_ids": (3, 1, 4, 1, 5, 9, 2), "mesh": "6x6", "wafer": "wse3", "dtype": "float32"},
}


class Killed(Exception):
    """The error that ends a run here, where a signal would elsewhere."""


def request_of(name: str, folder: Path, **more: Any) -> RunRequest:
    asked = {"model": "story"} | REQUESTS[name]
    if name == "experts":
        asked["model"] = write_checkpoint(folder / "model", json.loads(GOLDEN.read_text(encoding="utf-8")))
    return RunRequest(**asked, new_tokens=TOKENS, trace=None, schedule="released", **more)


def facts(result: RunResult) -> dict[str, Any]:
    """All but what this computer's own time is."""
    return {key: value for key, value in result.to_dict().items() if key not in ("emulation", "trace")}


def killed_after(passes: int, request: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until so many passes were carried out."""
    carry_out, done = Engine.run, []

    def run_some(engine: Engine, bound: BoundPhase) -> None:
        if len(done) == passes:
            raise Killed
        done.append(bound)
        carry_out(engine, bound)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "run", run_some)
        with pytest.raises(Killed):
            run(request)


@pytest.mark.parametrize("name", slow_but(REQUESTS, "drawn", "experts"))
def test_a_run_that_was_killed_twice_is_as_one_that_was_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(name, tmp_path)
    whole = run(replace(request, trace=tmp_path / "whole.h5"))
    kept = replace(request, checkpoint=tmp_path / "run.checkpoint", checkpoint_every=0)
    for passes in (3, 2):
        killed_after(passes, kept, monkeypatch)
    heard: list[str] = []
    resumed = run(replace(kept, trace=tmp_path / "resumed.h5"), on_text=heard.append)
    assert facts(resumed) == facts(whole)
    assert resumed.emulation.passes_again is not None
    assert resumed.emulation.passes_again >= 3
    assert "".join(heard) == (resumed.text or "")
    with open_trace(tmp_path / "whole.h5") as a, open_trace(tmp_path / "resumed.h5") as b:
        for column in ("links/words", "passes/start_cycle", "tokens/id"):
            np.testing.assert_array_equal(a.column(column), b.column(column))


def test_a_run_that_is_over_is_told_again_without_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("drawn", tmp_path, checkpoint=tmp_path / "run.checkpoint")
    first = run(request)
    monkeypatch.setattr(Engine, "run", None)
    again = run(request)
    assert facts(again) == facts(first)
    assert (first.emulation.passes_again, again.emulation.tokens_per_s) == (None, 0)


@pytest.fixture(scope="module")
def kept_request(tmp_path_factory: pytest.TempPathFactory) -> RunRequest:
    folder = tmp_path_factory.mktemp("kept")
    request = request_of("drafts", folder, checkpoint=folder / "run.checkpoint")
    run(request)
    return request


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mesh": "8x25"}, r"is of a Program with another digest \([0-9a-f]{12}, needed: [0-9a-f]{12}\); give the"),
        ({"prompt": "The dog sat. The cat sat. The cat"}, "is of prompts, draws or weights with another digest"),
        ({"record": "activations", "trace": "t.h5"}, "make no tensors; leave out --record"),
        ({"checkpoint_every": float("nan")}, "--checkpoint-every nan: is no time; give seconds"),
        ({"checkpoint": ""}, "the path is empty; give a file name"),
    ],
)
def test_what_cannot_go_on_is_refused(
    kept_request: RunRequest, changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = Path(str(kept_request.checkpoint)).read_bytes()
    with pytest.raises(BadInput, match=message):
        run(replace(kept_request, **changes))
    assert Path(str(kept_request.checkpoint)).read_bytes() == before


def with_first_element(data: bytes, name: str, value: int) -> bytes:
    """The file with another first element of an int64 array."""
    length = int.from_bytes(data[:8], "little")
    at = 8 + length + json.loads(data[8 : 8 + length])[name]["data_offsets"][0]
    return data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"Once upon a time", "is no checkpoint of a run (.*claims a header of"),
        (lambda data: data[:-8], "is no checkpoint of a run"),
        (lambda data: data.replace(b'"program"', b'"progran"'), r"is no checkpoint of a run \(has no digest"),
        (lambda data: data.replace(b'"slots"', b'"slotz"'), "is damaged .'slots'.; give another name"),
        (lambda data: data.replace(b'"state.links"', b'"state.linkz"'), "is damaged .links: is missing, needed: int64"),
        (lambda data: data.replace(b'"F32"', b'"I32"'), r"is damaged .prompt_logits: int32 .*, needed: float32"),
        (lambda data: with_first_element(data, "ids", 1 << 40), "is damaged .ids: has values outside -1 to"),
    ],
)
def test_a_file_that_is_none_is_refused(kept_request: RunRequest, change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.checkpoint"
    path.write_bytes(change(Path(str(kept_request.checkpoint)).read_bytes()))
    with pytest.raises(BadInput, match=message.replace("run (.*", r"run \(.*")):
        run(replace(kept_request, checkpoint=path, new_tokens=TOKENS))
