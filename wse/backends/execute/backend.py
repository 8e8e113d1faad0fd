"""Backend: the interface between whatever executes a Program and those who ask for tokens."""

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
    """An executor of one Program, with its weights in SRAM and the tokens of all users.

    `wse.backends.execute.engine.Engine` is the one on the cores of this machine. Another one, on other processes or on
    a GPU, must give the same bits: the order of every sum is part of the Program.
    """

    @property
    def tokens(self) -> list[int]:
        """The last token id of each user.

        Raises BadModel when no logit of a token was a number.
        """

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last token, float32 ``[users, vocabulary]``, if the Program sends logits to the host."""

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last pass over several tokens, float32 ``[tokens, vocabulary]``, if they go to the host."""

    @property
    def step_times(self) -> StepTimes | None:
        """Wall times of the steps of all passes so far, of a backend created with ``profile``."""

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Number of tokens of the last phase that chose each expert, by layer, int64 ``[experts]``."""

    def cache_slots(self, user: int) -> Slots:
        """Return the cache slots that a user occupies on the fullest row of each stage."""

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile the kernels that are needed; ``report`` is called with (done, all, name) before each one.

        Gives the reason why what was compiled could not be kept for the next run; empty where it was.
        """

    def prefill(self, *prompts: Sequence[int]) -> Iterator[int]:
        """Run each user's prompt chunk by chunk; yield the index of each phase when it is done.

        Then ``tokens`` follow the prompts.
        """

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and return the ids that follow.

        ``tokens`` replace the ids that the wafer stores.
        """

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Announce the tokens of the next pass of a user, so that it may begin before `verify` asks for its ids.

        Another user's pass may be verified in between, but nothing else be done.
        """

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and return the id that follows each.

        `keep` says how many count.
        """

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first ``tokens`` of the last pass of a user and remove the others from the cache.

        ``next_id`` replaces the id that followed them, where the host drew another.
        """

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words on each link so far, int64 ``[wafers, 4, mesh rows, mesh cols]``."""


class CheckpointableBackend(Backend, Protocol):
    """A backend whose state can be saved between two passes and restored in another backend.

    Attributes:
        program: The Program.
        streams: The host's part: ids and logits that came out last.
        passes_at_once: Passes that may be under way at a time.
    """

    program: Program
    streams: Streams
    passes_at_once: int

    def prefill(self, *prompts: Sequence[int], first: int = 0, last: int | None = None) -> Iterator[int]:
        """Run each user's prompt chunk by chunk, or only the chunks from ``first`` to before ``last``."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the run without weights, in the form of `wse.backends.execute.engine_state`."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises ValueError for a state of another Program.
        """


class BackendFactory(Protocol):
    """A function that creates backends, such as the class Engine, whose docstring has the arguments."""

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
