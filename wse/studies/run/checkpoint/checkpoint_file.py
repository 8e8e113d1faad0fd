"""CheckpointFile: the results of all passes so far and the engine state of a run.

The file is in safetensors format. Digests identify the Program and the prompts, sampling options
and weights, and detect damage. The KV-cache counters are not stored, because they can be derived
from the passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.backends.execute.engine_state import Caches, counters_of
from wse.errors import BadInput, BadModel
from wse.models.tensors.safetensors_file import open_safetensors, write_safetensors
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse.reports.output_file import open_output
from wse.studies.run.prepare import PreparedRun

Arrays = dict[str, npt.NDArray[Any]]
CHECKPOINT_OPTION: Final = "--checkpoint"
OTHER_NAME: Final = "give another name, or remove it to start again"
CONTENT: Final = "content"  # digest of all other arrays, to detect damage
DIGESTS: Final = ("program", "request")  # must be equal to resume a run


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """Results of one pass, i.e. one execution of the Program for a prompt chunk or new tokens.

    Attributes:
        phase: Index of the Program phase (a sequence of steps) that ran.
        ids: Resulting token ids: one per user, or one per token of a verification pass.
        kept_tokens: Number of tokens that a verification pass kept; 0 for other passes.
        pairs: Number of tokens routed to each expert, int64 ``[experts]``, keyed by layer index.
            Only layers with experts have an entry.
        slots: Occupied KV-cache slots of each user after the pass.
    """

    phase: int
    ids: tuple[int, ...]
    kept_tokens: int
    pairs: Mapping[int, npt.NDArray[np.int64]]
    slots: tuple[Slots, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State of a run between two passes, from which an interrupted run can resume.

    Attributes:
        passes: Results of all passes so far.
        state: State of the backend after the last pass, such as SRAM contents and counters, keyed
            by array name.
        prompt_logits: Logits after the prompts, available once all prompts have been processed.
    """

    passes: tuple[PassRecord, ...]
    state: Mapping[str, npt.NDArray[Any]]
    prompt_logits: npt.NDArray[np.float32]


class CheckpointFile:
    """The file in which a run saves its state, and from which an interrupted run resumes.

    The file contains digests of the Program, the prompts, the sampling options and the weights. A
    run with different digests cannot resume from it.

    Args:
        path: Path of the file, which need not exist yet.
        prepared_run: The run.
        program: Its compiled Program.
        digest: Digest of the Program.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, path: Path, prepared_run: PreparedRun, program: Program, digest: str) -> None:
        request = prepared_run.request
        identifying_text = repr((prepared_run.prompts, request.sampling, str(request.model), request.weights)).encode()
        self.path, self._identity = path, (bytes.fromhex(digest), hashlib.sha256(identifying_text).digest())
        self._spec, self._program = prepared_run.spec, program
        self._mixture_layers = [number for number, layer in enumerate(prepared_run.spec.layers) if layer.experts]

    def read(self) -> Checkpoint | None:
        """Read the stored checkpoint. Return None if the file does not exist.

        Raises:
            BadInput: The file is not a checkpoint, is damaged, or belongs to a run with a different
                Program, or different prompts, sampling options or weights.
        """
        if not self.path.exists():
            return None
        try:
            arrays = {name: entry.array() for name, entry in open_safetensors(self.path).items()}
            digests = [arrays[name].tobytes() for name in DIGESTS]
        except (BadModel, KeyError) as error:
            reason = "has no digest of a Program" if isinstance(error, KeyError) else str(error).partition(";")[0]
            raise BadInput(
                f"{CHECKPOINT_OPTION} {self.path}: is not a checkpoint of a run ({reason}); {OTHER_NAME}"
            ) from error
        for digest, expected_digest, owner in zip(
            digests, self._identity, ("a Program", "prompts, draws or weights"), strict=True
        ):
            if digest != expected_digest:
                raise BadInput(
                    f"{CHECKPOINT_OPTION} {self.path}: belongs to {owner} with another digest ({digest.hex()[:12]}, "
                    f"needed: {expected_digest.hex()[:12]}); give the options of that run, {OTHER_NAME}"
                )
        try:
            return self._checkpoint(arrays)
        except (KeyError, ValueError) as error:
            raise self.damage(error) from error

    def damage(self, fault: Exception) -> BadInput:
        """Return the error to raise for a damaged checkpoint file.

        Args:
            fault: Exception that was raised while the file was read. Its text is part of the
                message.
        """
        return BadInput(f"{CHECKPOINT_OPTION} {self.path}: is damaged ({fault}); {OTHER_NAME}")

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint, replacing an existing file.

        Raises:
            BadInput: The file cannot be written.
        """
        with open_output(CHECKPOINT_OPTION, self.path) as file:
            write_safetensors(file, self._arrays(checkpoint))

    def _checkpoint(self, arrays: Arrays) -> Checkpoint:
        """Validate the arrays of a file and convert them to a checkpoint.

        The fill levels of KV caches are not stored. They are recomputed by replaying all passes.

        Raises:
            KeyError: An array is missing.
            ValueError: The arrays are damaged or inconsistent.
        """
        if arrays[CONTENT].tobytes() != content_digest(arrays):
            raise ValueError("its arrays are not those of its digest")
        self._check(arrays)
        caches, passes = Caches(self._program), []
        for number, (phase, kept_tokens, ids) in enumerate(
            zip(arrays["phase"].tolist(), arrays["kept"].tolist(), arrays["ids"].tolist(), strict=True)
        ):
            self._check_pass(caches, number, phase, kept_tokens, ids)
            run = self._program.phases[phase]
            caches.append(run)
            passes.append(
                PassRecord(
                    phase=phase,
                    ids=tuple(ids[: self._ids_after(number, run)]),
                    kept_tokens=kept_tokens,
                    pairs=dict(zip(self._mixture_layers, arrays["pairs"][number], strict=True)),
                    slots=tuple(caches.slots(user) for user in range(self._program.batch)),
                )
            )
            if kept_tokens:
                caches.remove_last(run.user, run.tokens - kept_tokens)
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        state |= counters_of(caches)
        return Checkpoint(passes=tuple(passes), state=state, prompt_logits=arrays["prompt_logits"])

    def _check(self, arrays: Arrays) -> None:
        """Check the shapes, types and values of the arrays that store the results of passes.

        Raises:
            KeyError: An array is missing.
            ValueError: An array has the wrong shape or type, or a value is out of bounds.
        """
        for name, (shape, min_value, max_value) in self._layout(arrays["phase"].size).items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.int64:
                raise ValueError(f"{name}: {array.dtype} {list(array.shape)}, needed: int64 {list(shape)}")
            if ((array < min_value) | (array > max_value)).any():
                raise ValueError(f"{name}: has values outside {min_value} to {max_value}")

    def _check_pass(self, caches: Caches, number: int, phase: int, kept_tokens: int, ids: Sequence[int]) -> None:
        """Check that a stored pass can follow the passes before it.

        Args:
            caches: Fill levels of the KV caches after the earlier passes.
            number: Index of the pass in the run.
            phase: Index of the Program phase that the pass ran.
            kept_tokens: Number of tokens that a verification pass kept; 0 for other passes.
            ids: Resulting token ids, padded with -1.

        Raises:
            ValueError: In one of these cases:
                - The pass is not the next prompt chunk although one remains, or is a prompt chunk
                  although none remains.
                - The KV cache has no room for the tokens of the pass.
                - The pass has too few ids.
                - A verification pass keeps no tokens, or a pass of another type keeps some.
        """
        program, run = self._program, self._program.phases[phase]
        prompts = program.prefill
        users = range(program.batch) if run.user < 0 else (run.user,)
        if (run is not prompts[number]) if number < len(prompts) else run.name == "prefill":
            fault = f"a pass of {run.name} is not in its place"
        elif any(caches.length(user) + (run.user < 0 or run.tokens) > program.context for user in users):
            fault = "has no room in the cache"
        elif (kept_tokens > 0) != (run.name == "verify"):
            fault = f"keeps {kept_tokens} tokens of a pass of {run.name}"
        elif min(ids[: self._ids_after(number, run)], default=0) < 0:
            fault = "has too few ids"
        else:
            return
        raise ValueError(f"pass {number}: {fault}")

    def _ids_after(self, number: int, phase: Phase) -> int:
        """Return how many token ids the result of a pass must contain.

        A verification pass yields one id per token. Any other pass yields one id for each user
        whose prompt has been processed completely.

        Args:
            number: Index of the pass in the run.
            phase: Program phase that the pass ran.
        """
        if phase.name == "verify":
            return phase.tokens
        next_phases = self._program.prefill[number + 1 : number + 2]
        return next_phases[0].user if next_phases else self._program.batch

    def _arrays(self, checkpoint: Checkpoint) -> Arrays:
        """Return the arrays to store in the file, including digests, keyed by name."""
        layout = self._layout(len(checkpoint.passes))
        arrays: Arrays = {name: np.full(shape, -1, np.int64) for name, (shape, *_) in layout.items()}
        for number, record in enumerate(checkpoint.passes):
            arrays["phase"][number] = record.phase
            arrays["ids"][number, : len(record.ids)] = record.ids
            arrays["kept"][number] = record.kept_tokens
            for place, layer in enumerate(self._mixture_layers):
                arrays["pairs"][number, place] = record.pairs[layer]
        arrays |= {name: np.frombuffer(digest, np.uint8) for name, digest in zip(DIGESTS, self._identity, strict=True)}
        counters = counters_of(Caches(self._program))
        arrays |= {f"state.{name}": array for name, array in checkpoint.state.items() if name not in counters}
        arrays["prompt_logits"] = checkpoint.prompt_logits
        return {**arrays, CONTENT: np.frombuffer(content_digest(arrays), np.uint8)}

    def _layout(self, passes: int) -> dict[str, tuple[tuple[int, ...], int, int]]:
        """Return shape, minimum and maximum of each array of pass results, keyed by array name.

        The minimum of token ids is -1, because the ids of each pass are padded with -1.

        Args:
            passes: Number of passes.
        """
        program, experts = self._program, self._spec.experts
        pass_tokens = max(program.batch, *(phase.tokens for phase in program.phases))
        pair_shape = (passes, len(self._mixture_layers), 0 if experts is None else experts.count)
        return {
            "phase": ((passes,), 0, len(program.phases) - 1),
            "ids": ((passes, max(program.batch, program.verify_tokens)), -1, self._spec.vocab_size - 1),
            "kept": ((passes,), 0, program.verify_tokens),
            "pairs": (pair_shape, 0, pass_tokens),
        }


def content_digest(arrays: Arrays) -> bytes:
    """Return the SHA-256 hash of the names, types, shapes and elements of a checkpoint's arrays.

    The array that stores this digest is excluded.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays.keys() - {CONTENT}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.data if array.size else b"")
    return digest.digest()
