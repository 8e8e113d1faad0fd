"""The engine: a Program, its weights in SRAM, and the users' tokens that run through it one phase at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.backends.execute.arena import Arena
from wse.backends.execute.bind import Binder, BoundPhase
from wse.backends.execute.caches import Caches
from wse.backends.execute.engine_state import restore, state_of
from wse.backends.execute.outputs import Outputs, Routing, Values
from wse.backends.execute.pe_contents import Bytes, PeContents, PePlace
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.streams import Call, Draw, Streams
from wse.backends.execute.tiles import Source
from wse.backends.execute.verified_ids import VerifiedIds
from wse.backends.execute.weights import store_weights
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots
from wse_kernels.library import KERNEL_FILES
from wse_kernels.precompile import precompile
from wse_kernels.shared_cores import SharedCores
from wse_mappings.cuts.split import balanced_counts

CALLS_BETWEEN_LOOKS: Final = 16
"""Calls of kernels after which it is looked at whether other programs want the cores."""


class Engine:
    """The execution backend for one Program.

    ``tensor`` gives canonical tensors by name; with ``allow_nonfinite`` they may hold infinities and what is no number.
    ``draws``, one a user, pick the next id from float32 logits ``[vocabulary]`` when the Program samples on the host.
    Raises ValueError when it does and there are not as many, WseBug when it does not fit. ``on_output`` takes the
    outputs of the ``watched`` ops, by their indices in the Program, as `wse.backends.execute.outputs.Outputs` has it.
    With ``profile`` every call is timed.

    Of the stages of other ``wafers``, where these are given, it holds nothing and runs no steps.

    Attributes:
        caches: The counters of the users' caches.
        crossings: By step, tiles in transit from and to wafers that another engine has.
        step_times: The wall times of the steps of all passes so far; None without ``profile``.
        passes_at_once: Passes that may be under way at a time: one.
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
        watched: Collection[int] = (),
        on_output: Callable[[int, Values], None] = lambda op, values: None,
        on_stored: Callable[[int, int, str], None] = lambda done, total, name: None,
        profile: bool = False,
        wafers: Collection[int] | None = None,
    ) -> None:
        if program.sampling == "host" and len(draws) != program.batch:
            message = f"the Program samples on the host: give draws, {program.batch} of them"
            raise ValueError(message)
        if not program.fits:
            most = max(stage.sram_top_byte for stage in program.stages)
            had = program.sram_bytes_per_pe
            message = f"a Program that needs {most:,} of {had:,} bytes on a PE can be timed, not executed"
            raise WseBug(message)
        if program.ids_address < 0:
            message = "a Program of layers alone can be timed, not executed"
            raise WseBug(message)
        self.program = program
        held = range(program.wafers) if wafers is None else wafers
        self.arenas = {
            i: Arena(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte)
            for i, s in enumerate(program.stages)
            if s.wafer in held
        }
        self.streams = Streams(program, draws, held)
        self.caches = Caches(program)
        self.routing = Routing()
        control = [[cache[stage.rect.rows].control for stage in program.stages] for cache in self.caches.by_user]
        outputs = Outputs(program, spec, self.arenas, watched, on_output) if watched else None
        self._binder = Binder(program, self.arenas, control, self.streams, self.routing, outputs)
        self.crossings = self._binder.crossings
        self._cores = SharedCores()
        self._decode: BoundPhase | None = None  # as it ran last
        self._verified = VerifiedIds(program, self.caches)
        self.step_times = StepTimes(program, self.arenas) if profile else None
        self._embedding_stage = next(i for i, s in enumerate(program.stages) if s.has_embedding)
        store_weights(program, spec, tensor, self.arenas, allow_nonfinite=allow_nonfinite, on_stored=on_stored)

    def watch(self, places: Collection[PePlace], on_bytes: Callable[[PePlace, int, Bytes], None]) -> None:
        """Read the buffers of some PEs in every pass from now on, as in `wse.backends.execute.pe_contents.PeContents`.

        It is called before the first pass, and before `precompile`.
        """
        self._binder.contents = PeContents(self.program, self.arenas, places, on_bytes)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last token, float32 ``[users, vocabulary]``. Requires ``logits_out``."""
        return self.streams.host_logits[: self.program.batch].copy()

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last pass over several tokens, float32 ``[tokens, vocabulary]``. Requires ``logits_out``."""
        return self.streams.host_logits[self.program.batch :].copy()

    @property
    def tokens(self) -> list[int]:
        """The last token id of each user.

        Raises BadModel when no logit of a token was a number.
        """
        return self.streams.ids(range(self.program.batch))

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Number of tokens of the last phase that chose each expert, by layer, int64 ``[experts]``."""
        return self.routing.pairs

    def cache_slots(self, user: int) -> Slots:
        """Return the cache slots that a user occupies on the fullest row of each stage."""
        return self.caches.slots(user)

    def prefill(self, *prompts: Sequence[int], first: int = 0, last: int | None = None) -> Iterator[int]:
        """Run each user's prompt chunk by chunk; yield the index of each phase as it is done.

        With ``first`` and ``last``, one past the last, some of the phases alone.
        """
        for index, phase in islice(enumerate(self.program.prefill), first, last):
            self.run(self.begin(index, chunk_of(phase, prompts)))
            yield index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and return the ids that follow.

        ``tokens`` replace the ids that the wafer stores.
        """
        self.run(self.begin(self.program.decode_index, tokens))
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Announce the next pass of a user; it runs when `verify` is called."""

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and return the id that follows each.

        `keep` says how many count.

        ``tokens`` are the user's next one and those that were drafted after it, as many as the Program was compiled
        for; they stand where a draft's head on the wafer would leave them, or come from the host.

        Where the host draws ids they are the likeliest ones: it may draw others from `verified_logits`.

        Raises:
            BadInput: there are not as many, or the user's cache has no room for them.
            BadModel: no logit of one was a number.
        """
        program = self.program
        self._verified.check(tokens, user)
        phase = program.verify[user]
        self.run(self.begin(program.phases.index(phase), tokens))
        places = program.host_places(phase)
        if program.sampling == "host":
            self.streams.take_likeliest(places)
        ids = self.streams.ids(places)
        self._verified.add(ids, user)
        return ids

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first ``tokens`` of the last pass of a user and remove the others from the cache.

        The id that followed the last one that is kept is the user's next token, or ``next_id`` that the host drew.

        Raises:
            BadInput: there are less than 1 or more than the pass had, or its tokens were kept before.
        """
        likeliest = self._verified.keep(tokens, user)
        self.keep_ids(user, tokens, likeliest if next_id is None else next_id)

    def keep_ids(self, user: int, tokens: int, next_id: int) -> None:
        """Keep the first ``tokens`` of a user's last pass, and store ``next_id`` as the next token."""
        self.caches.take_back(user, self.program.verify_tokens - tokens)
        self._store_ids(user, [next_id])

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the run without weights, in the form of `wse.backends.execute.engine_state`."""
        return state_of(self)

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises ValueError for a state of another Program.
        """
        restore(self, arrays)

    def begin(self, index: int, ids: Sequence[int]) -> BoundPhase:
        """Bind a phase, count its tokens in the caches, and store its ids where it reads them.

        They are the chunk of the prompt, the tokens of a pass over several, or those that replace the next ones.
        """
        phase = self.program.phases[index]
        if phase.name == "prefill":
            self.streams.host_ids = self._chunk(phase, ids)
        else:
            self.streams.host_ids = np.array(ids, np.float32)  # where the phase takes them from the host
            self._store_ids(self.program.batch if phase.name == "verify" else 0, ids)
        self.caches.append(phase)
        if phase.user >= 0:
            return self._binder.bind(phase, self.cache_slots(phase.user))
        slots = max(self.cache_slots(user) for user in range(self.program.batch))  # of the longest, in every stage
        if self._decode is None or slots != self._decode.slots:
            self._decode = self._binder.bind(phase, slots)
        return self._decode

    def run(self, bound: BoundPhase) -> None:
        """Run all calls of a phase that was begun, or some of them."""
        with self._cores.steps():
            if self.step_times is not None:
                self.step_times.run(bound, self._cores.adapt)
            else:
                for first in range(0, len(bound.calls), CALLS_BETWEEN_LOOKS):
                    for function, arguments in bound.calls[first : first + CALLS_BETWEEN_LOOKS]:
                        function(*arguments)
                    self._cores.adapt()
        for (stage, loads), times in bound.loads.items():
            self.arenas[stage].carried[loads] += times

    def _chunk(self, phase: Phase, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the ids of a chunk as they enter; where each row has a part, the parts are padded to one length."""
        chunk = np.array(ids, np.float32)
        if not phase.on_mesh:
            return chunk
        rows = self.program.stages[self._embedding_stage].rect.rows
        shares = balanced_counts(phase.tokens, rows)
        padded = np.zeros((rows, int(shares.max())), np.float32)
        padded[np.arange(padded.shape[1]) < shares[:, None]] = chunk
        return padded.reshape(-1)

    def _store_ids(self, first: int, tokens: Sequence[int]) -> None:
        """Store ids from position ``first`` on all PEs of the embedding's stage, if it is in this process."""
        arena = self.arenas.get(self._embedding_stage)
        if arena is not None and tokens:
            address = self.program.ids_address + first
            arena.view("float32")[:, address : address + len(tokens), :] = np.array(tokens, np.float32)[:, None]

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile the kernels that the phases use, as described for `wse.backends.execute.backend.Backend`."""
        distinct: dict[tuple[object, ...], Call] = {}
        for phase in {phase.steps: phase for phase in self.program.phases}.values():
            slots = self.program.cache_slots(phase.cached + phase.tokens)
            for call in self._binder.bind(phase, slots).calls:
                function, arguments = call
                types = tuple(getattr(a, "dtype", None) for a in arguments)
                distinct.setdefault((function, *types), call)
        precompile(list(distinct.values()), report)
        return KERNEL_FILES.trouble

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words on each link of the wafers in this process, int64 ``[wafers, 4, mesh rows, mesh cols]``."""
        total = {wafer: words.copy() for wafer, words in self.streams.links.items()}
        for number, arena in self.arenas.items():
            stage = self.program.stages[number]
            r = stage.rect
            for i, wafer in enumerate(stage.wafers):
                words = arena.links[:, :, i * r.cols : (i + 1) * r.cols]
                total[wafer][:, r.row : r.row + r.rows, r.col : r.col + r.cols] += words
        return np.stack(list(total.values()))


def chunk_of(phase: Phase, prompts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the token ids that a prompt chunk reads."""
    return prompts[phase.user][phase.cached : phase.cached + phase.tokens]
