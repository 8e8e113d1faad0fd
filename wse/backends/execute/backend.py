"""Backend: the interface of whatever executes a Program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wse.backends.execute.outputs import Values
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.streams import Draw, Streams
from wse.backends.execute.tiles import Source
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import Slots


class Backend(Protocol):
    """Protocol of the executors of one Program, with its weights in SRAM and the users' tokens.

    `wse.backends.execute.engine.Engine` executes on the cores of this machine. Another backend, in
    other processes or on a GPU, must produce the same bits, because the order of every sum is part
    of the Program.
    """

    @property
    def tokens(self) -> list[int]:
        """Last token id of each user.

        Raises:
            BadModel: The logits of a token contained NaN or infinity.
        """

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last token of each user, float32 ``[users, vocabulary]``.

        They are only defined if the Program sends logits to the host.
        """

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last verification pass, float32 ``[tokens, vocabulary]``.

        They exist only if logits leave the wafer.
        """

    @property
    def step_times(self) -> StepTimes | None:
        """Wall times of the steps of all passes so far; None unless created with ``profile``."""

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Tokens of the last phase that chose each expert: int64 ``[experts]`` for each layer.

        The key is the index of the layer.
        """

    def cache_slots(self, user: int) -> Slots:
        """Return the cache slots that a user occupies on the fullest row of each stage."""

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile the kernels that are needed.

        Args:
            report: Function that is called with (kernels compiled, all kernels, name) before each
                kernel.

        Returns:
            The reason why the compiled kernels could not be stored for the next run; empty if they
            were.
        """

    def prefill(self, *prompts: Sequence[int]) -> Iterator[int]:
        """Read each user's prompt chunk by chunk. Then ``tokens`` has the id after each prompt.

        Args:
            prompts: Token ids of each user's prompt.

        Yields:
            The index of each phase (chunk) when it has finished.
        """

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one decode pass for all users and return the ids that follow.

        Args:
            tokens: Ids to use instead of those that the wafer stores.
        """

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Announce the tokens of a user's next verification pass, so that the pass can begin early.

        Until `verify` is called for this user, only verification passes of other users may run.
        """

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a verification pass over new tokens of one user and return the id after each token.

        `keep` must be called next, with the number of accepted tokens.
        """

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first tokens of a user's last verification pass, and remove the others.

        Args:
            tokens: Number of tokens to keep.
            user: Index of the user.
            next_id: Id to use instead of the one that followed the last token, if the host sampled
                another.
        """

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words on each link so far, int64 ``[wafers, 4, mesh rows, mesh cols]``."""


class CheckpointableBackend(Backend, Protocol):
    """A backend whose state can be saved between two passes and restored in another backend.

    Attributes:
        program: The Program.
        streams: The host's part: the last ids and logits.
        passes_at_once: Maximum number of passes in flight.
    """

    program: Program
    streams: Streams
    passes_at_once: int

    def prefill(self, *prompts: Sequence[int], first_phase: int = 0, end_phase: int | None = None) -> Iterator[int]:
        """Run each user's prompt chunk by chunk; yield the index of each finished phase.

        Args:
            prompts: Token ids of each user's prompt.
            first_phase: Index of the first prefill phase to run.
            end_phase: Index after the last prefill phase to run; None runs all remaining phases.
        """

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the run without weights (see `wse.backends.execute.engine_state`)."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises:
            ValueError: The state is that of another Program.
        """


class BackendFactory(Protocol):
    """A function that creates backends, such as the class `Engine` (see there for arguments)."""

    def __call__(
        self,
        program: Program,
        spec: ModelSpec,
        tensor: Callable[[str], Source],
        draws: Sequence[Draw] = (),
        *,
        allow_nonfinite: bool = False,
        watched: Collection[int] = (),
        on_output: Callable[[int, Values], None] = ...,
        on_stored: Callable[[int, int, str], None] = ...,
        profile: bool = False,
    ) -> CheckpointableBackend:
        """Return a backend with the weights of a Program in SRAM."""
