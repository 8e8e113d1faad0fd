"""Tests of checkpoints: a killed run resumes with the results of an uninterrupted one; wrong files are refused."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from random_checkpoint import write_checkpoint
from session import SOFTWARE, wafer
from tiers import slow_but
from tiny_model import tensors, tiny_spec
from wafer_runs import CHOICE, OPTIONS

from wse.backends.execute.calls.bind import BoundPhase
from wse.backends.execute.engine import Engine
from wse.backends.execute.engine_part import EnginePart
from wse.compiler.pipeline import compile_choice
from wse.errors import BadInput
from wse.models.tensors.safetensors_file import open_safetensors, write_safetensors
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.answer import RunCallbacks
from wse.studies.run.checkpoint.checkpoint_file import CONTENT, content_digest
from wse.studies.run.ray.wafer_actors import merge_states, state_of_wafer
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run
from wse_traces import open_trace

TOKENS = 9
PASS_ARRAYS = ("phase", "ids", "kept", "pairs")
"""Arrays of a checkpoint with one entry per executed pass."""
GOLDEN = Path(__file__).parents[2] / "data" / "formats" / "mxfp4.json"
STORY: dict[str, Any] = {"mesh": "8x24", "dtype": "float32", "prompt": "The cat sat. The cat sat. The cat"}
REQUESTS: dict[str, dict[str, Any]] = {
    "sampled": STORY | {"temperature": 0.8, "repetition_penalty": 1.2, "logits": True},
    "drafts": STORY | {"prompt": "She liked to play. She liked to play. She liked to", "verify_tokens": 3},
    "two users on two wafers": STORY | {"wafers": 2, "prompt": ("One day", "The little fox went out to play in")},
    "experts": {"prompt_ids": (3, 1, 4, 1, 5, 9, 2), "mesh": "6x6", "wafer": "wse3", "dtype": "float32"},
}


class Killed(Exception):
    """Raised in the middle of a run, in place of a signal that kills the process."""


def named_request(name: str, folder: Path, **more: Any) -> RunRequest:
    """Return the request REQUESTS[name] with further options; `folder` stores the model of "experts"."""
    options = {"model": "story"} | REQUESTS[name]
    if name == "experts":
        options["model"] = write_checkpoint(folder / "model", json.loads(GOLDEN.read_text(encoding="utf-8")))
    options |= {"mapping": "region", "schedule": "baseline"}
    return make_request(RunRequest, **options, new_tokens=TOKENS, trace=None, **more)


def facts(result: RunResult) -> dict[str, Any]:
    """Return the report without the keys that depend on the speed of this computer or on file names."""
    return {key: value for key, value in result.to_dict().items() if key not in ("emulation", "trace")}


def run_and_kill(passes: int, request: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a request, and kill it after this number of passes."""
    run_pass, executed = Engine.run, []

    def run_until_killed(engine: Engine, bound: BoundPhase) -> None:
        if len(executed) == passes:
            raise Killed
        executed.append(bound)
        run_pass(engine, bound)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "run", run_until_killed)
        with pytest.raises(Killed):
            run(request)


@pytest.mark.parametrize("name", slow_but(REQUESTS, "sampled", "experts"))
def test_run_killed_twice_equals_an_uninterrupted_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = named_request(name, tmp_path)
    uninterrupted = run(replace_options(request, trace=tmp_path / "uninterrupted.h5"))
    with_checkpoint = replace_options(request, checkpoint=tmp_path / "run.checkpoint", checkpoint_every=0)
    for passes in (3, 2):
        run_and_kill(passes, with_checkpoint, monkeypatch)
    texts: list[str] = []
    resumed = run(replace_options(with_checkpoint, trace=tmp_path / "resumed.h5"), RunCallbacks(on_text=texts.append))
    assert facts(resumed) == facts(uninterrupted)
    assert resumed.emulation.passes_again is not None
    assert resumed.emulation.passes_again >= 3
    assert "".join(texts) == (resumed.text or "")
    with open_trace(tmp_path / "uninterrupted.h5") as a, open_trace(tmp_path / "resumed.h5") as b:
        for column in ("links/words", "passes/start_cycle", "tokens/id"):
            np.testing.assert_array_equal(a.column(column), b.column(column))


def test_finished_run_is_reported_again_without_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = named_request("sampled", tmp_path, checkpoint=tmp_path / "run.checkpoint")
    first = run(request)
    monkeypatch.setattr(Engine, "run", None)
    repeated = run(request)
    assert facts(repeated) == facts(first)
    assert (first.emulation.passes_again, repeated.emulation.tokens_per_s) == (None, 0)


@pytest.fixture(scope="module")
def finished_request(tmp_path_factory: pytest.TempPathFactory) -> RunRequest:
    """Run the request "drafts" with a checkpoint file, and return it."""
    folder = tmp_path_factory.mktemp("finished")
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
def test_changed_request_cannot_resume(
    finished_request: RunRequest, changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = Path(str(finished_request.checkpoints.checkpoint)).read_bytes()
    with pytest.raises(BadInput, match=message):
        run(replace_options(finished_request, **changes))
    assert Path(str(finished_request.checkpoints.checkpoint)).read_bytes() == before


def with_arrays(**changes: Any) -> Callable[[bytes], bytes]:
    """Return a function that changes the arrays in the bytes of a checkpoint, and updates their digest.

    Args:
        changes: A function of the old array by name, or None to remove the array.
    """

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


def with_element(value: int, *index: int) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Return a function that sets one element of an array."""

    def change(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        array[index] = value
        return array

    return change


def with_bit_flipped(data: bytes) -> bytes:
    """Return the bytes of a checkpoint with one bit of a KV-cache value flipped, and the old digest."""
    length = int.from_bytes(data[:8], "little")
    offset = 8 + length + json.loads(data[8 : 8 + length])["state.memory.0"]["data_offsets"][0]
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


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
            with_arrays(**{name: lambda old: np.tile(old, (9, *(1,) * (old.ndim - 1))) for name in PASS_ARRAYS}),
            "is damaged .pass [0-9]+: a pass of prefill is not in its place",
        ),
    ],
)
def test_damaged_checkpoint_is_refused(finished_request: RunRequest, change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.checkpoint"
    path.write_bytes(change(Path(str(finished_request.checkpoints.checkpoint)).read_bytes()))
    with pytest.raises(BadInput, match=message.replace("run (.*", r"run \(.*")):
        run(replace_options(finished_request, checkpoint=path, new_tokens=TOKENS))


PROMPTS = ((5, 9, 31, 7), (3, 11))


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Return an engine on two wafers after two prompts and one decoded token."""
    spec = tiny_spec()
    options = replace(OPTIONS, mapping="region", wafers=2, prompt_tokens=(4, 2), context=12)
    program = compile_choice(spec, wafer(4, 3, 1 << 20), SOFTWARE, options, CHOICE)
    engine = Engine(program, spec, tensors(spec).__getitem__)
    list(engine.prefill(*PROMPTS))
    engine.decode()
    return engine


def test_state_is_divided_among_wafers_and_merged_again(engine: Engine) -> None:
    spec, state, wafer_states = tiny_spec(), engine.state(), []
    for wafer_index in range(2):
        part = EnginePart(engine.program, spec, tensors(spec).__getitem__, wafer_index)
        part.restore(state_of_wafer(engine.program, state, wafer_index))
        wafer_states.append(part.state())
    host_state = {name: array for name, array in state.items() if name.startswith(("cache.", "host_"))}
    merged = merge_states(host_state, wafer_states)
    assert merged.keys() == state.keys()
    assert state["crossed"].any()
    assert state["links"].any()
    for name, array in state.items():
        np.testing.assert_array_equal(merged[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("crossed", np.array(0), "crossed: int64 [], needed: int64 [3, 3]"),
        ("links", np.array(0), "links: int64 [], needed: int64 [2, 4, 4, 3]"),
        ("links", np.zeros((2, 4, 4, 3)), "links: float64 [2, 4, 4, 3], needed: int64 [2, 4, 4, 3]"),
        ("crossed", None, "crossed: is missing, needed: int64 [3, 3]"),
    ],
)
def test_state_with_arrays_of_another_shape_is_refused(engine: Engine, name: str, array: Any, message: str) -> None:
    arrays = {**engine.state(), name: array}
    if array is None:
        del arrays[name]
    with pytest.raises(ValueError, match="needed") as caught:
        state_of_wafer(engine.program, arrays, 0)
    assert str(caught.value) == message
    with pytest.raises(ValueError, match="needed") as refused:
        engine.restore(arrays)
    assert str(refused.value) == message
