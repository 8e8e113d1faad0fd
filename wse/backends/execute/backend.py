"""Interface of the backends, which execute a Program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.streams import Draw, Streams
from wse.backends.execute.observation.observation import Observation
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.weight_storage.tiles import Source
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import Slots


class Backend(Protocol):
    """Protocol for executors of a Program (a compiled model).

    A backend stores the weights of the model in emulated SRAM and generates tokens.

    `wse.backends.execute.engine.Engine` executes on the CPU cores of this computer. A backend that
    runs in other processes or on a GPU must produce the same bits, because the order of every sum
    is part of the Program.
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

        They are only defined if the Program sends logits to the host.
        """

    @property
    def step_times(self) -> StepTimes | None:
        """Wall times of the steps of all passes so far; None if they are not measured.

        A pass is one run of a phase: a prefill chunk, a decode pass or a verification pass.
        """

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Number of tokens that the last pass routed to each expert, as int64 ``[experts]``.

        The arrays are keyed by layer index. Layers without experts have no entry.
        """

    def cache_slots(self, user: int) -> Slots:
        """Return how many cache slots of a user are in use, for each stage.

        A stage is a part of the model, stored on one region of PEs. A cache slot stores the keys
        and values of one token. Slots are counted on the row of PEs with the most tokens.
        """

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile all kernels that the Program needs.

        Args:
            report: Function that is called before each kernel is compiled, with the number of
                kernels compiled so far, the total number of kernels, and the name of the kernel.

        Returns:
            The reason why the compiled kernels could not be stored for the next run; empty if the
            kernels were stored.
        """

    def prefill(self, *prompts: Sequence[int]) -> Iterator[int]:
        """Process each user's prompt, chunk by chunk.

        After the last chunk, `tokens` contains the id that the model predicts after each prompt.

        Args:
            prompts: Token ids of each user's prompt.

        Yields:
            The index of each phase (chunk) when it has finished.
        """

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one decode pass for all users and return each user's next token id.

        Args:
            tokens: Ids to continue from, one per user, instead of the ids stored on the wafer.
        """

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Announce the tokens of a user's next verification pass, so that the pass can start early.

        Afterwards, no pass may run except verification passes of other users, until `verify` is
        called for this user.

        Args:
            tokens: Tokens that `verify` will be called with.
            user: Index of the user.
        """

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a verification pass over new tokens of a user; return the predicted id after each.

        `keep` must be called next, with the number of accepted tokens.

        Args:
            tokens: The user's next token and the draft tokens after it.
            user: Index of the user.
        """

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first tokens of a user's last verification pass and remove the rest.

        Args:
            tokens: Number of tokens to keep.
            user: Index of the user.
            next_id: Next token of the user, if the host sampled it. By default, it is the id that
                the pass predicted after the last kept token.
        """

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return how many 32-bit words each link has carried so far.

        Returns:
            int64 ``[wafers, 4, mesh rows, mesh cols]``. The second axis selects the link of a PE:
            north, east, south or west.
        """


class CheckpointableBackend(Backend, Protocol):
    """Backend whose state can be saved between two passes and restored in another backend.

    Attributes:
        program: The Program that the backend executes.
        streams: Token ids and logits that are exchanged with the host.
        passes_at_once: Maximum number of passes that may be in flight.
    """

    program: Program
    streams: Streams
    passes_at_once: int

    def prefill(self, *prompts: Sequence[int], first_phase: int = 0, end_phase: int | None = None) -> Iterator[int]:
        """Process each user's prompt, chunk by chunk, or only some of the chunks.

        Args:
            prompts: Token ids of each user's prompt.
            first_phase: Index of the first prefill phase (chunk) to run.
            end_phase: Index after the last prefill phase to run; None runs all remaining phases.

        Yields:
            The index of each phase when it has finished.
        """

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything that a run needs to continue, except weights, as named arrays.

        `wse.backends.execute.engine_state` lists the arrays.
        """

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises:
            ValueError: The state belongs to a different Program.
        """


class BackendFactory(Protocol):
    """Protocol of functions that create a backend, with the arguments of the class `Engine`."""

    def __call__(
        self,
        program: Program,
        spec: ModelSpec,
        tensor: Callable[[str], Source],
        draws: Sequence[Draw] = (),
        *,
        allow_nonfinite: bool = False,
        observation: Observation = ...,
    ) -> CheckpointableBackend:
        """Create a backend that executes a Program, and store the weights in its emulated SRAM.

        The arguments are the same as for the class `Engine`.
        """


def check_executable(program: Program, draws: Sequence[Draw]) -> None:
    """Raise an error if a Program cannot be executed.

    Args:
        program: The compiled Program.
        draws: Functions, one per user, that sample the next id if the Program samples on the host.

    Raises:
        ValueError: The number of ``draws`` is wrong.
        WseBug: The Program does not fit into SRAM, or has only layers (no embedding and head).
    """
    if program.sampling == "host" and len(draws) != program.batch:
        raise ValueError(f"the Program samples on the host: give {program.batch} functions in draws, one per user")
    if not program.fits:
        max_used_bytes = max(stage.sram_top_byte for stage in program.stages)
        used_text = f"{max_used_bytes:,} of {program.sram_bytes_per_pe:,} bytes"
        raise WseBug(f"a Program that needs {used_text} on a PE can be timed, not executed")
    if program.ids_address < 0:
        raise WseBug("a Program that has only layers can be timed, not executed")
