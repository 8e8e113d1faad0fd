"""Engine: executes the phases of a Program for its users, with weights in SRAM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.backends.execute.backend import check_executable
from wse.backends.execute.calls.bind import Binder, BoundPhase
from wse.backends.execute.calls.streams import Draw, Streams
from wse.backends.execute.engine_state import Caches, restore, state_of
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.host_tokens.token_ids import HostResults, InputIds, VerifiedIds
from wse.backends.execute.observation.observation import NO_OBSERVATION, Observation
from wse.backends.execute.observation.outputs import Outputs, Routing
from wse.backends.execute.observation.pe_contents import Bytes, PeContents, PePlace
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.weight_storage.tiles import Source
from wse.backends.execute.weight_storage.weights import store_weights
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import Phase
from wse_kernels.codegen.jit import KERNEL_FILES
from wse_kernels.precompile import precompile
from wse_kernels.shared_cores import SharedCores


class Engine(HostResults):
    """The backend that executes one Program on the CPU cores of this computer.

    Args:
        program: The compiled Program.
        spec: Description of the model.
        tensor: Function that returns the tensor with a given canonical name.
        draws: Functions, one per user, that sample the next id from float32 logits
            ``[vocabulary]``. Required if the Program samples on the host.
        allow_nonfinite: Whether weights may contain infinity and NaN.
        observation: What is reported during execution: op outputs, progress and times.
        wafers: Wafers of this process; None for all. Stages of other wafers are neither stored nor
            executed.

    Attributes:
        caches: Counters of the users' caches.
        crossings: Words in transit to and from wafers in other processes; the key is the step.
        step_times: Wall times of the steps of all passes so far; None without ``profile``.
        passes_at_once: Maximum number of passes in flight: one.

    Raises:
        ValueError, WseBug: The Program cannot be executed (`check_executable`).
    """

    passes_at_once = 1

    def __init__(
        self,
        program: Program,
        spec: ModelSpec,
        tensor: Callable[[str], Source],
        draws: Sequence[Draw] = (),
        *,
        allow_nonfinite: bool = False,
        observation: Observation = NO_OBSERVATION,
        wafers: Collection[int] | None = None,
    ) -> None:
        check_executable(program, draws)
        self.program = program
        wafer_indices = range(program.wafers) if wafers is None else wafers
        self.arenas = {
            i: Arena(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte)
            for i, s in enumerate(program.stages)
            if s.wafer in wafer_indices
        }
        self.streams = Streams(program, draws, wafer_indices)
        self.caches = Caches(program)
        self.routing = Routing()
        control = [[cache[stage.rect.rows].control for stage in program.stages] for cache in self.caches.by_user]
        watched = observation.watched
        outputs = Outputs(program, spec, self.arenas, watched, observation.on_output) if watched else None
        self._binder = Binder(program, self.arenas, control, self.streams, self.routing, outputs)
        self.crossings = self._binder.crossings
        self._cores = SharedCores()
        self._decode: BoundPhase | None = None  # the decode phase as last bound
        self._verified = VerifiedIds(program, self.caches)
        self.step_times = StepTimes(program, self.arenas) if observation.profile else None
        self._input_ids = InputIds(program, self.arenas)
        store_weights(
            program, spec, tensor, self.arenas, allow_nonfinite=allow_nonfinite, on_stored=observation.on_stored
        )

    def watch(self, places: Collection[PePlace], on_bytes: Callable[[PePlace, int, Bytes], None]) -> None:
        """Report the contents of all SRAM buffers of some PEs in every pass from now on.

        This must be called before the first pass and before `precompile`.

        Args:
            places: The PEs to watch.
            on_bytes: Function that is called with a PE, the index of a buffer and the bytes of
                the buffer (`wse.backends.execute.observation.pe_contents.PeContents`).
        """
        self._binder.contents = PeContents(self.program, self.arenas, places, on_bytes)

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Number of tokens that the last pass routed to each expert, as int64 ``[experts]``.

        The arrays are keyed by layer index. Layers without experts have no entry.
        """
        return self.routing.pairs

    def prefill(self, *prompts: Sequence[int], first_phase: int = 0, end_phase: int | None = None) -> Iterator[int]:
        """Process each user's prompt, chunk by chunk. Each chunk is a prefill phase of the Program.

        Args:
            prompts: Token ids of each user's prompt.
            first_phase: Index of the first prefill phase to run.
            end_phase: Index after the last prefill phase to run; None runs all remaining phases.

        Yields:
            The index of each phase when it has finished.
        """
        for index, phase in islice(enumerate(self.program.prefill), first_phase, end_phase):
            self.run(self.begin(index, chunk_of(phase, prompts)))
            yield index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one decode pass for all users and return the next token id of each user.

        Args:
            tokens: Ids to continue from, one per user, instead of the ids stored on the wafer.
        """
        self.run(self.begin(self.program.decode_index, tokens))
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Do nothing: this engine starts a verification pass only when `verify` is called."""

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a verification pass over new tokens of a user; return the predicted id after each.

        The tokens are sent by the host, or are stored on the PEs at the address where a draft head
        would write them. If the host samples, the returned ids are the most likely ones, and the
        host may choose other ids from `verified_logits`. `keep` must be called next, with the
        number of accepted tokens.

        Args:
            tokens: The user's next token and the draft tokens after it. Their number must equal the
                number of tokens per verification pass in the Program.
            user: Index of the user.

        Raises:
            BadInput: The number of tokens is wrong, or the user's cache has no room for them.
            BadModel: The logits of a token contained NaN or infinity.
        """
        program = self.program
        self._verified.check(tokens, user)
        phase = program.verify[user]
        self.run(self.begin(program.phases.index(phase), tokens))
        return self._ids_after(user)

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first tokens of a user's last verification pass and remove the rest.

        The id after the last kept token becomes the user's next token.

        Args:
            tokens: Number of tokens to keep.
            user: Index of the user.
            next_id: Next token, if the host sampled it. By default, it is the id that `verify`
                returned for the last kept token.

        Raises:
            BadInput: ``tokens`` is less than 1 or more than the pass had, or `keep` was already
                called after this pass.
        """
        most_likely_id = self._verified.keep(tokens, user)
        self.keep_ids(user, tokens, most_likely_id if next_id is None else next_id)

    def keep_ids(self, user: int, tokens: int, next_id: int) -> None:
        """Keep the first tokens of a user's last verification pass; set the user's next token.

        Unlike `keep`, this method does not check the number of tokens, and the next token must be
        given.
        """
        self.caches.remove_last(user, self.program.verify_tokens - tokens)
        self._input_ids.store(user, [next_id])

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything that a run needs to continue, except weights, as named arrays.

        `wse.backends.execute.engine_state` lists the arrays.
        """
        return state_of(self)

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises:
            ValueError: The state belongs to another Program.
        """
        restore(self, arrays)

    def begin(self, index: int, ids: Sequence[int]) -> BoundPhase:
        """Prepare a pass: bind its phase, add its tokens to the cache counters, and store its ids.

        Args:
            index: Index of the phase in the Program.
            ids: Token ids that the pass reads: the prompt chunk, the tokens to verify, or the ids
                that replace the users' next tokens in a decode pass.

        Returns:
            The calls of the phase, which `run` executes.
        """
        phase = self.program.phases[index]
        self.streams.host_ids = self._input_ids.sent_ids(phase, ids)
        if phase.name != "prefill":
            self._input_ids.store(self.program.batch if phase.name == "verify" else 0, ids)
        self.caches.append(phase)
        if phase.user >= 0:
            return self._binder.bind(phase, self.cache_slots(phase.user))
        slots = max(self.cache_slots(user) for user in range(self.program.batch))  # slots of the longest cache
        if self._decode is None or slots != self._decode.slots:
            self._decode = self._binder.bind(phase, slots)
        return self._decode

    def run(self, bound: BoundPhase) -> None:
        """Execute the calls of a phase, or of a part of it, and record its transfers.

        The records are used later to count the words on links.
        """
        with self._cores.steps():
            if self.step_times is not None:
                self.step_times.run(bound, self._cores.adapt)
            else:
                bound.run(self._cores.adapt)
        for (stage, loads), times in bound.loads.items():
            self.arenas[stage].pending_loads[loads] += times

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile all kernels that the phases use.

        Args:
            report: Function that is called before each kernel is compiled, with the number of
                kernels compiled so far, the total number of kernels, and the name of the kernel.

        Returns:
            The reason why the compiled kernels could not be stored for the next run; empty if they
            were stored.
        """
        precompile(self._binder.calls_by_types(), report)
        return KERNEL_FILES.trouble

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return how many 32-bit words each link of the wafers in this process has carried so far.

        Returns:
            int64 ``[wafers, 4, mesh rows, mesh cols]``. The second axis is the link of a PE: north,
            east, south, west.
        """
        return self.streams.link_words(self.arenas)


def chunk_of(phase: Phase, prompts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the token ids of the prompt chunk that a prefill phase reads."""
    return prompts[phase.user][phase.cached : phase.cached + phase.tokens]
