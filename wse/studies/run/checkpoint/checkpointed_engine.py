"""CheckpointedEngine: a backend that writes checkpoints and resumes an interrupted run from one.

A resumed run first returns the results of the stored passes without executing them, so that the
text, cycles and trace are the same as in an uninterrupted run. Then it restores the state of the
engine and continues with the next pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wse.backends.execute.backend import CheckpointableBackend
from wse.backends.execute.host_tokens.sampling import Sampler
from wse.backends.execute.step_times import StepTimes
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse.studies.run.checkpoint.checkpoint_file import Checkpoint, CheckpointFile, PassRecord
from wse.studies.run.prepare import PreparedRun


class CheckpointedEngine:
    """Backend that writes checkpoints of a run, and can resume an interrupted run from one.

    Passes contained in the checkpoint are not executed again; their stored results are returned.
    All other passes are executed by another backend. The checkpoint is written by `close`, and
    before a pass if the requested interval has elapsed since the last write.

    Args:
        engine: Backend that executes the passes.
        file: Checkpoint file.
        start: Checkpoint to resume from, or None.
        prepared_run: The run.
        samplers: Random samplers used by the engine. They are advanced to the state of ``start``.

    Attributes:
        passes_again: Number of passes whose results come from the checkpoint.
        logits: Logits after the last token of each prompt, float32 ``[users, vocabulary]``. They do
            not change while more tokens are generated.

    Raises:
        BadInput: The checkpoint is damaged.
    """

    def __init__(
        self,
        engine: CheckpointableBackend,
        file: CheckpointFile,
        start: Checkpoint | None,
        prepared_run: PreparedRun,
        samplers: Sequence[Sampler],
    ) -> None:
        self._engine, self._file, self._start, self._samplers = engine, file, start, samplers
        self._vocabulary = prepared_run.loaded.spec.vocab_size
        self._every_s = prepared_run.request.checkpoints.checkpoint_every
        self._passes = [] if start is None else list(start.passes)
        self.passes_again = len(self._passes)
        self._done = 0  # passes whose results were returned in this run
        self.logits = engine.logits
        if start is not None:
            engine_logits, stored_logits = self.logits, start.prompt_logits
            if (stored_logits.dtype, stored_logits.shape) != (engine_logits.dtype, engine_logits.shape):
                needed_text = f"needed: {engine_logits.dtype} {list(engine_logits.shape)}"
                raise file.damage(
                    ValueError(f"prompt_logits: {stored_logits.dtype} {list(stored_logits.shape)}, {needed_text}")
                )
            self.logits = stored_logits
        self._written_s = time.monotonic()
        self._announced: set[int] = set()  # users with a pass in flight

    @property
    def tokens(self) -> list[int]:
        """Token ids produced by the last pass: one per user, or one per verified token."""
        return list(self._last.ids)

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits after each token of the verification pass that was last executed in this process.

        Passes whose results come from the checkpoint do not change them.
        """
        return self._engine.verified_logits

    @property
    def step_times(self) -> StepTimes | None:
        """Times of the steps that this process executed; None if steps are not timed."""
        return self._engine.step_times

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Number of tokens in the last pass that selected each expert, keyed by layer."""
        return self._last.pairs

    def cache_slots(self, user: int) -> Slots:
        """Return how many KV-cache slots of each stage a user occupies.

        A slot stores the keys and values of one token on a row of PEs. The slots of the fullest row
        are counted.
        """
        return self._last.slots[user]

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile all kernels needed by the run.

        Args:
            report: Called with (kernels compiled, total, name).

        Returns:
            Why the kernels could not be cached for the next run. Empty if they were cached.
        """
        return self._engine.precompile(report)

    def prefill(self, *prompts: Sequence[int]) -> Iterator[int]:
        """Process all prompts chunk by chunk, skipping the chunks contained in the checkpoint.

        Up to ``passes_at_once`` chunks are in flight concurrently. A checkpoint can be written only
        when none is in flight.

        Args:
            prompts: Token ids of each user's prompt.

        Yields:
            The index of each chunk when it is finished. The chunks from the checkpoint come first,
            without delay.
        """
        chunks = len(self._engine.program.prefill)
        while self._done < min(chunks, self.passes_again):
            self._done += 1
            yield self._done - 1
        while self._done < chunks:
            self._begin_pass()
            end_phase = self._done + self._engine.passes_at_once
            for index in self._engine.prefill(*prompts, first_phase=self._done, end_phase=end_phase):
                phase = self._engine.program.prefill[index]
                self._end_pass(phase, self._engine.streams.host_tokens[: self._engine.program.batch].tolist())
                if index == chunks - 1:
                    self.logits = self._engine.logits
                yield index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Return the id of the next token for each user.

        The ids are computed by a decode pass or taken from the checkpoint.

        Args:
            tokens: Input ids, one per user. They replace the ids stored on the wafer, which are the
                ids generated last. By default, none are replaced.
        """
        if self._done == len(self._passes):
            self._begin_pass()
            self._end_pass(self._engine.program.decode, self._engine.decode(tokens))
        else:
            self._done += 1
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Start a user's next verification pass early, while other passes are still running.

        Nothing is done if the result of the pass is in the checkpoint, or if a new checkpoint is
        due, because it can only be written while no pass is in flight.

        Args:
            tokens: Token ids that the pass will verify.
            user: Index of the user.
        """
        if self._done >= self.passes_again and not self._is_due:
            self._go_on()
            self._announced.add(user)
            self._engine.announce(tokens, user)

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a verification pass over one user's tokens, or take its result from the checkpoint.

        Args:
            tokens: The user's next token and the draft tokens.
            user: Index of the user.

        Returns:
            For each token, the id of the token that follows it.
        """
        if self._done == len(self._passes):
            self._begin_pass()
            self._announced.discard(user)
            self._end_pass(self._engine.program.verify[user], self._engine.verify(tokens, user))
        else:
            self._done += 1
        return self.tokens

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep only the first ``tokens`` tokens of a user's last pass in the KV cache.

        Nothing is done if the result of the pass comes from the checkpoint.

        Args:
            tokens: Number of tokens to keep.
            user: Index of the user.
            next_id: Id that follows the kept tokens. None for the most likely id.
        """
        if self._done > self.passes_again:
            self._engine.keep(tokens, user, next_id)
            self._passes[-1] = replace(self._last, kept_tokens=tokens)

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words sent over each link so far, including passes in the checkpoint."""
        self._go_on()
        return self._engine.link_words()

    def close(self) -> None:
        """Write the checkpoint."""
        self._go_on()
        passes, state = tuple(self._passes), self._engine.state()
        self._file.write(Checkpoint(passes=passes, state=state, prompt_logits=self.logits))
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
        """Restore the state of the engine and the samplers from the checkpoint, if there is one.

        This method is called before each executed pass; only the first call has an effect.

        Raises:
            BadInput: The stored state belongs to a different Program.
        """
        if self._start is None:
            return
        start, self._start = self._start, None
        try:
            self._engine.restore(start.state)
        except ValueError as error:
            raise self._file.damage(error) from error
        for number, record in enumerate(start.passes if self._samplers else ()):
            for user in _drawn_users(self._engine.program, number):
                self._samplers[user].skip(record.ids[user], self._vocabulary)


def _drawn_users(program: Program, number: int) -> Sequence[int]:
    """Return the users for whom the host samples a token id after a pass.

    A pass that ends a prompt yields an id for the user of this prompt. Other passes over prompts
    yield no id. After all prompts, a pass yields an id for every user.

    Args:
        program: The compiled Program.
        number: Index of the pass in the run.
    """
    chunks = program.prefill
    if number >= len(chunks):
        return range(program.batch)
    user = chunks[number].user
    return () if number + 1 < len(chunks) and chunks[number + 1].user == user else (user,)
