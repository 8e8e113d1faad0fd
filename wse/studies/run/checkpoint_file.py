"""The file of a run that is kept now and then: what each pass gave back, and the engine's state after the last.

It is safetensors. Digests say which Program it is of, and which prompts, draws and weights.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.errors import BadInput, BadModel
from wse.models.tensors.safetensors_file import DTYPES, open_safetensors
from wse.program.program import Program
from wse.program.steps import Slots
from wse.report.output_file import open_output
from wse.request.prepare_run import Prepared

Arrays = dict[str, npt.NDArray[Any]]
OPTION: Final = "--checkpoint"
DIGESTS: Final = ("program", "request")
_KINDS: Final = {dtype: kind for kind, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """What a pass gave back.

    Attributes:
        ids: The ids that it ended with: of each user, or after each token of a pass over several of one user.
        kept: Tokens of such a pass that were kept; 0 for the others.
        pairs: Tokens that chose each expert, by layer, int64 ``[experts]``.
        slots: Cache slots of each user after it.
    """

    ids: tuple[int, ...]
    kept: int
    pairs: Mapping[int, npt.NDArray[np.int64]]
    slots: tuple[Slots, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run up to some pass: the passes, the state after the last, and logits after the prompts once they are read."""

    passes: tuple[PassRecord, ...]
    state: Mapping[str, npt.NDArray[Any]]
    prompt_logits: npt.NDArray[np.float32]


def identity_of(prepared: Prepared, program_digest: str) -> tuple[bytes, bytes]:
    """What two runs must share so that one can go on with the other: the Program, and prompts, draws and weights."""
    request = prepared.request
    asked = repr((prepared.prompts, request.sampling, str(request.model), request.weights)).encode()
    return bytes.fromhex(program_digest), hashlib.sha256(asked).digest()


def read_checkpoint(
    path: Path, prepared: Prepared, program: Program, identity: tuple[bytes, bytes]
) -> Checkpoint | None:
    """The run that a file has; None where there is no file.

    Raises:
        BadInput: it is no such file, or has a run of another Program, or of other prompts, draws or weights.
    """
    if not path.exists():
        return None
    other_name = "give another name, or remove it to begin anew"
    try:
        arrays = {name: entry.array() for name, entry in open_safetensors(path).items()}
        kept = [arrays[name].tobytes() for name in DIGESTS]
    except (BadModel, KeyError) as error:
        reason = "has no digest of a Program" if isinstance(error, KeyError) else str(error).partition(";")[0]
        message = f"{OPTION} {path}: is no checkpoint of a run ({reason}); {other_name}"
        raise BadInput(message) from error
    for digest, own, what in zip(kept, identity, ("a Program", "prompts, draws or weights"), strict=True):
        if digest != own:
            message = (
                f"{OPTION} {path}: is of {what} with another digest ({digest.hex()[:12]}, needed: {own.hex()[:12]}); "
                f"give the options of the run that it is of, {other_name}"
            )
            raise BadInput(message)
    try:
        return _checkpoint(prepared, program, arrays)
    except (KeyError, ValueError) as error:
        message = f"{OPTION} {path}: is damaged ({error}); {other_name}"
        raise BadInput(message) from error


def _checkpoint(prepared: Prepared, program: Program, arrays: Arrays) -> Checkpoint:
    """The checkpoint of the arrays of a file. Raises KeyError or ValueError where they are not as they were written."""
    layers = _mixture_layers(prepared)
    for name, shape in _shapes(prepared, program, len(arrays["kept"])).items():
        if arrays[name].shape != shape or arrays[name].dtype != np.int64:
            message = f"{name}: {arrays[name].dtype} {list(arrays[name].shape)}, needed: int64 {list(shape)}"
            raise ValueError(message)
    records = [
        PassRecord(
            ids=tuple(id_ for id_ in ids if id_ >= 0),
            kept=kept,
            pairs=dict(zip(layers, pairs, strict=True)),
            slots=tuple(map(tuple, slots)),
        )
        for ids, kept, pairs, slots in zip(
            arrays["ids"].tolist(), arrays["kept"].tolist(), arrays["pairs"], arrays["slots"].tolist(), strict=True
        )
    ]
    state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
    return Checkpoint(passes=tuple(records), state=state, prompt_logits=arrays["prompt_logits"])


def _arrays(prepared: Prepared, program: Program, kept: Checkpoint, identity: tuple[bytes, bytes]) -> Arrays:
    """The arrays of a file, by name."""
    shapes = _shapes(prepared, program, len(kept.passes))
    arrays: Arrays = {name: np.full(shape, -1, np.int64) for name, shape in shapes.items()}
    for number, one in enumerate(kept.passes):
        arrays["ids"][number, : len(one.ids)] = one.ids
        arrays["kept"][number] = one.kept
        arrays["slots"][number] = one.slots
        for place, layer in enumerate(_mixture_layers(prepared)):
            arrays["pairs"][number, place] = one.pairs[layer]
    arrays |= {
        name: np.frombuffer(digest, np.uint8) for name, digest in zip(("program", "request"), identity, strict=True)
    }
    return {**arrays, "prompt_logits": kept.prompt_logits, **{f"state.{name}": a for name, a in kept.state.items()}}


def _shapes(prepared: Prepared, program: Program, passes: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of so many passes."""
    experts = prepared.spec.experts
    return {
        "ids": (passes, max(program.batch, program.verify_tokens)),
        "kept": (passes,),
        "slots": (passes, program.batch, len(program.stages)),
        "pairs": (passes, len(_mixture_layers(prepared)), 0 if experts is None else experts.count),
    }


def _mixture_layers(prepared: Prepared) -> list[int]:
    return [number for number, layer in enumerate(prepared.spec.layers) if layer.experts]


def write_checkpoint(
    path: Path, prepared: Prepared, program: Program, identity: tuple[bytes, bytes], kept: Checkpoint
) -> None:
    """Write the file in the place of one that is there. Raises BadInput where that cannot be."""
    arrays = _arrays(prepared, program, kept, identity)
    header, at = {}, 0
    for name, array in arrays.items():
        offsets = [at, at + array.nbytes]
        header[name] = {"dtype": _KINDS[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open_output(OPTION, path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
