"""An engine whose run is kept in a file now and then, and goes on from there after it was killed.

A run that goes on gives the passes that the file has again, without carrying them out, so that text, times and trace
are those of a whole run; then it puts the state into an engine with the same weights and goes on with the next pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wse.backends.execute.backend import CheckpointableBackend
from wse.backends.execute.sampling import Sampler
from wse.backends.execute.step_times import StepTimes
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots
from wse.studies.run.checkpoint.checkpoint_file import Checkpoint, CheckpointFile, PassRecord


class CheckpointedEngine:
    """A backend that is an engine, keeps what it does in a file, and goes on from there.

    It answers as `wse.backends.execute.backend.Backend` has it. ``every_s`` seconds after the last time, before a pass
    begins, the file is written anew; and with `close`. ``start`` is what the file had; ``samplers`` are those whose
    draws the engine was given, over ids below ``vocabulary``. Raises BadInput where the file is damaged.

    Attributes:
        passes_again: Passes that were not executed, but taken from the file.
    """

    def __init__(
        self,
        engine: CheckpointableBackend,
        file: CheckpointFile,
        start: Checkpoint | None,
        vocabulary: int,
        samplers: Sequence[Sampler],
        every_s: float,
    ) -> None:
        self._engine, self._file, self._start, self._vocabulary = engine, file, start, vocabulary
        self._samplers, self._every_s = samplers, every_s
        self._passes = [] if start is None else list(start.passes)
        self.passes_again = len(self._passes)
        self._done = 0  # passes that were given back in this run
        self._prompt_logits = engine.logits
        if start is not None:
            own, given = self._prompt_logits, start.prompt_logits
            if (given.dtype, given.shape) != (own.dtype, own.shape):
                needed = f"needed: {own.dtype} {list(own.shape)}"
                raise file.damage(ValueError(f"prompt_logits: {given.dtype} {list(given.shape)}, {needed}"))
            self._prompt_logits = given
        self._written_s = time.monotonic()
        self._announced: set[int] = set()  # users whose passes are under way

    @property
    def tokens(self) -> list[int]:
        """Each user's id that the last phase ended with."""
        return list(self._last.ids)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits after the prompts; of the last token run once there were others."""
        return self._prompt_logits

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last pass over several tokens that was executed."""
        return self._engine.verified_logits

    @property
    def step_times(self) -> StepTimes | None:
        """The times of the passes that were executed."""
        return self._engine.step_times

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Tokens of the last phase that chose each expert, by layer."""
        return self._last.pairs

    def cache_slots(self, user: int) -> Slots:
        """Cache slots that a user has in use on the fullest row of each stage."""
        return self._last.slots[user]

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile what is needed, as `wse.backends.execute.backend.Backend` has it."""
        return self._engine.precompile(report)

    def prefill(self, *prompts: Sequence[int]) -> Iterator[int]:
        """Run each user's prompt chunk by chunk, from the first chunk on that the file does not have."""
        chunks = len(self._engine.program.prefill)
        while self._done < min(chunks, self.passes_again):
            self._done += 1
            yield self._done - 1
        while self._done < chunks:
            self._begin_pass()
            last = self._done + self._engine.passes_at_once
            for index in self._engine.prefill(*prompts, first=self._done, last=last):
                phase = self._engine.program.prefill[index]
                self._end_pass(phase, self._engine.streams.host_tokens[: self._engine.program.batch].tolist())
                if index == chunks - 1:
                    self._prompt_logits = self._engine.logits
                yield index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and give the ids that follow."""
        if self._done == len(self._passes):
            self._begin_pass()
            self._end_pass(self._engine.program.decode, self._engine.decode(tokens))
        else:
            self._done += 1
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Announce a pass, but where the file has it, and where it is time to write the file."""
        if self._done >= self.passes_again and not self._is_due:
            self._go_on()
            self._announced.add(user)
            self._engine.announce(tokens, user)

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and give the id that follows each."""
        if self._done == len(self._passes):
            self._begin_pass()
            self._announced.discard(user)
            self._end_pass(self._engine.program.verify[user], self._engine.verify(tokens, user))
        else:
            self._done += 1
        return self.tokens

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first ``tokens`` of the last pass of a user and take the others off the cache again."""
        if self._done > self.passes_again:
            self._engine.keep(tokens, user, next_id)
            self._passes[-1] = replace(self._last, kept_tokens=tokens)

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words that crossed each link so far, in the passes of the file too."""
        self._go_on()
        return self._engine.link_words()

    def close(self) -> None:
        """Write the file."""
        self._go_on()
        passes, state = tuple(self._passes), self._engine.state()
        self._file.write(Checkpoint(passes=passes, state=state, prompt_logits=self._prompt_logits))
        self._written_s = time.monotonic()

    @property
    def _last(self) -> PassRecord:
        return self._passes[self._done - 1]

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._written_s >= self._every_s

    def _begin_pass(self) -> None:
        self._go_on()
        if self._is_due and not self._announced:
            self.close()

    def _end_pass(self, phase: Phase, ids: Sequence[int]) -> None:
        program = self._engine.program
        slots = tuple(self._engine.cache_slots(user) for user in range(program.batch))
        pairs = {layer: array.copy() for layer, array in self._engine.expert_pairs.items()}
        index = program.phases.index(phase)
        self._passes.append(PassRecord(phase=index, ids=tuple(ids), kept_tokens=0, pairs=pairs, slots=slots))
        self._done += 1

    def _go_on(self) -> None:
        """Put the state of the file into the engine, before the first pass that it does not have.

        Raises:
            BadInput: the state is not one of the Program's.
        """
        if self._start is None:
            return
        start, self._start = self._start, None
        try:
            self._engine.restore(start.state)
        except ValueError as error:
            raise self._file.damage(error) from error
        for number, one in enumerate(start.passes if self._samplers else ()):
            for user in _drawn_users(self._engine.program, number):
                self._samplers[user].skip(one.ids[user], self._vocabulary)


def _drawn_users(program: Program, number: int) -> Sequence[int]:
    """Return the users for whom the host draws ids in a pass: whose prompt ends with it, or all."""
    chunks = program.prefill
    if number >= len(chunks):
        return range(program.batch)
    user = chunks[number].user
    return () if number + 1 < len(chunks) and chunks[number + 1].user == user else (user,)
