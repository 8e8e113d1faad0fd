"""The file of a run that is kept now and then: what each pass gave back, and the engine's state after the last.

It is safetensors. Digests say which Program it is of, and which prompts, draws and weights, and what all else in it was
when it was written. Counters of caches, which kernels take indices from, are not in it: they follow from the passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.backends.execute.caches import Caches
from wse.backends.execute.engine_state import counters_of
from wse.errors import BadInput, BadModel
from wse.models.tensors.safetensors_file import open_safetensors, write_safetensors
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots
from wse.reports.output_file import open_output
from wse.studies.run.prepare import PreparedRun

Arrays = dict[str, npt.NDArray[Any]]
CHECKPOINT_OPTION: Final = "--checkpoint"
OTHER_NAME: Final = "give another name, or remove it to begin anew"
CONTENT: Final = "content"  # the digest of all else in a file, so that damage is noticed
DIGESTS: Final = ("program", "request")  # what two runs must share so that one can go on with the other


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """The results of a pass.

    Attributes:
        phase: The index of its phase in the Program.
        ids: The ids that it ended with: of each user, or after each token of a pass over several of one user.
        kept_tokens: Tokens of such a pass that were kept; 0 for the others.
        pairs: Tokens that chose each expert, by layer, int64 ``[experts]``.
        slots: Cache slots of each user after it.
    """

    phase: int
    ids: tuple[int, ...]
    kept_tokens: int
    pairs: Mapping[int, npt.NDArray[np.int64]]
    slots: tuple[Slots, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run up to some pass: the passes, the state after the last, and logits after the prompts once they are read."""

    passes: tuple[PassRecord, ...]
    state: Mapping[str, npt.NDArray[Any]]
    prompt_logits: npt.NDArray[np.float32]


class CheckpointFile:
    """The file of a run with ``prepared`` and its Program, whose digest is ``digest``.

    Attributes:
        path: Where it is.
    """

    def __init__(self, path: Path, prepared: PreparedRun, program: Program, digest: str) -> None:
        request = prepared.request
        asked = repr((prepared.prompts, request.sampling, str(request.model), request.weights)).encode()
        self.path, self._identity = path, (bytes.fromhex(digest), hashlib.sha256(asked).digest())
        self._spec, self._program = prepared.spec, program
        self._mixture_layers = [number for number, layer in enumerate(prepared.spec.layers) if layer.experts]

    def read(self) -> Checkpoint | None:
        """Return the run that the file has; None where there is no file.

        Raises:
            BadInput: it is no such file, or has a run of another Program, or of other prompts, draws or weights.
        """
        if not self.path.exists():
            return None
        try:
            arrays = {name: entry.array() for name, entry in open_safetensors(self.path).items()}
            digests = [arrays[name].tobytes() for name in DIGESTS]
        except (BadModel, KeyError) as error:
            reason = "has no digest of a Program" if isinstance(error, KeyError) else str(error).partition(";")[0]
            message = f"{CHECKPOINT_OPTION} {self.path}: is no checkpoint of a run ({reason}); {OTHER_NAME}"
            raise BadInput(message) from error
        for digest, own, what in zip(digests, self._identity, ("a Program", "prompts, draws or weights"), strict=True):
            if digest != own:
                message = (
                    f"{CHECKPOINT_OPTION} {self.path}: is of {what} with another digest ({digest.hex()[:12]}, needed: "
                    f"{own.hex()[:12]}); give the options of the run that it is of, {OTHER_NAME}"
                )
                raise BadInput(message)
        try:
            return self._checkpoint(arrays)
        except (KeyError, ValueError) as error:
            raise self.damage(error) from error

    def damage(self, fault: Exception) -> BadInput:
        """Return the error of a file whose arrays are not as they were written."""
        return BadInput(f"{CHECKPOINT_OPTION} {self.path}: is damaged ({fault}); {OTHER_NAME}")

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the file in the place of one that is there. Raises BadInput where that cannot be."""
        with open_output(CHECKPOINT_OPTION, self.path) as file:
            write_safetensors(file, self._arrays(checkpoint))

    def _checkpoint(self, arrays: Arrays) -> Checkpoint:
        """The checkpoint of a file's arrays. Raises KeyError or ValueError where they are not as they were written."""
        if arrays[CONTENT].tobytes() != content_digest(arrays):
            message = "its arrays are not those of its digest"
            raise ValueError(message)
        self._check(arrays)
        caches, passes = Caches(self._program), []
        for number, (phase, kept, ids) in enumerate(
            zip(arrays["phase"].tolist(), arrays["kept"].tolist(), arrays["ids"].tolist(), strict=True)
        ):
            self._check_pass(caches, number, phase, kept, ids)
            run = self._program.phases[phase]
            caches.append(run)
            passes.append(
                PassRecord(
                    phase=phase,
                    ids=tuple(ids[: self._ids_after(number, run)]),
                    kept_tokens=kept,
                    pairs=dict(zip(self._mixture_layers, arrays["pairs"][number], strict=True)),
                    slots=tuple(caches.slots(user) for user in range(self._program.batch)),
                )
            )
            if kept:
                caches.take_back(run.user, run.tokens - kept)
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        state |= counters_of(caches)
        return Checkpoint(passes=tuple(passes), state=state, prompt_logits=arrays["prompt_logits"])

    def _check(self, arrays: Arrays) -> None:
        """Check shapes, types and values of what passes gave back. Raises KeyError or ValueError."""
        bounds = self._bounds()
        for name, shape in self._shapes(arrays["phase"].size).items():
            array, (least, most) = arrays[name], bounds[name]
            if array.shape != shape or array.dtype != np.int64:
                message = f"{name}: {array.dtype} {list(array.shape)}, needed: int64 {list(shape)}"
                raise ValueError(message)
            if ((array < least) | (array > most)).any():
                message = f"{name}: has values outside {least} to {most}"
                raise ValueError(message)

    def _check_pass(self, caches: Caches, number: int, phase: int, kept: int, ids: Sequence[int]) -> None:
        """Check that a pass can follow those before it, after which the caches are as they are. Raises ValueError."""
        program, run = self._program, self._program.phases[phase]
        prompts = program.prefill
        users = range(program.batch) if run.user < 0 else (run.user,)
        if (run is not prompts[number]) if number < len(prompts) else run.name == "prefill":
            fault = f"a pass of {run.name} is not in its place"
        elif any(caches.length(user) + (run.user < 0 or run.tokens) > program.context for user in users):
            fault = "has no room in the cache"
        elif (kept > 0) != (run.name == "verify"):
            fault = f"keeps {kept} tokens of a pass of {run.name}"
        elif min(ids[: self._ids_after(number, run)], default=0) < 0:
            fault = "has too few ids"
        else:
            return
        message = f"pass {number}: {fault}"
        raise ValueError(message)

    def _ids_after(self, number: int, phase: Phase) -> int:
        """The ids that are there after a pass of a phase: while prompts are read, of the users whose prompt is done."""
        if phase.name == "verify":
            return phase.tokens
        following = self._program.prefill[number + 1 : number + 2]
        return following[0].user if following else self._program.batch

    def _arrays(self, checkpoint: Checkpoint) -> Arrays:
        """Return the arrays of a file, by name; the counters of caches follow from the passes and are not in it."""
        shapes = self._shapes(len(checkpoint.passes))
        arrays: Arrays = {name: np.full(shape, -1, np.int64) for name, shape in shapes.items()}
        for number, one in enumerate(checkpoint.passes):
            arrays["phase"][number] = one.phase
            arrays["ids"][number, : len(one.ids)] = one.ids
            arrays["kept"][number] = one.kept_tokens
            for place, layer in enumerate(self._mixture_layers):
                arrays["pairs"][number, place] = one.pairs[layer]
        arrays |= {name: np.frombuffer(digest, np.uint8) for name, digest in zip(DIGESTS, self._identity, strict=True)}
        counters = counters_of(Caches(self._program))
        arrays |= {f"state.{name}": array for name, array in checkpoint.state.items() if name not in counters}
        arrays["prompt_logits"] = checkpoint.prompt_logits
        return {**arrays, CONTENT: np.frombuffer(content_digest(arrays), np.uint8)}

    def _shapes(self, passes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of so many passes."""
        program, experts = self._program, self._spec.experts
        return {
            "phase": (passes,),
            "ids": (passes, max(program.batch, program.verify_tokens)),
            "kept": (passes,),
            "pairs": (passes, len(self._mixture_layers), 0 if experts is None else experts.count),
        }

    def _bounds(self) -> dict[str, tuple[int, int]]:
        """Return the least and the most that elements of the arrays can be; -1 stands where a pass has no more ids."""
        program = self._program
        return {
            "phase": (0, len(program.phases) - 1),
            "ids": (-1, self._spec.vocab_size - 1),
            "kept": (0, program.verify_tokens),
            "pairs": (0, max(program.batch, *(phase.tokens for phase in program.phases))),
        }


def content_digest(arrays: Arrays) -> bytes:
    """Return the SHA-256 of all arrays but the digest itself: names, types, shapes and elements."""
    digest = hashlib.sha256()
    for name in sorted(arrays.keys() - {CONTENT}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.data if array.size else b"")
    return digest.digest()
