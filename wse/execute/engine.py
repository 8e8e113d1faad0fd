"""The engine: a Program, its weights in SRAM, and the users' tokens that run through it one phase at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from wse.errors import BadInput, BadModel, WseBug
from wse.execute.arena import Arena
from wse.execute.bind import Binder, BoundPhase
from wse.execute.outputs import Outputs, Routing, Values
from wse.execute.step_times import StepTimes
from wse.execute.streams import Call, Draw, Streams
from wse.execute.tiles import Source
from wse.execute.weights import store_weights
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import Slots
from wse_kernels.library import KERNEL_FILES
from wse_kernels.precompile import precompile
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.cuts.split import balanced_counts


class Engine:
    """Executes a Program.

    ``tensor`` gives canonical tensors by name; with ``allow_nonfinite`` they may hold infinities and what is no number.
    ``draws``, one a user, pick the next id from float32 logits ``[vocabulary]`` when the Program samples on the host.
    Raises ValueError when it does and there are not as many, WseBug when it does not fit. ``on_output`` takes the
    outputs of the ``watched`` ops, by their indices in the Program, as `wse.execute.outputs.Outputs` has it. With
    ``profile`` every call is timed.

    Attributes:
        caches: The counters of each user's cache, by the rows of the regions that hold layers of it.
        step_times: The wall times of the steps of all passes so far; None without ``profile``.
    """

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
        self.arenas = [Arena(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte) for s in program.stages]
        self.streams = Streams(program, draws)
        heights = {stage.rect.rows for stage in program.stages}
        self.caches = [{rows: CacheBalance(rows, program.context) for rows in heights} for _ in range(program.batch)]
        self.routing = Routing()
        control = [[cache[stage.rect.rows].control for stage in program.stages] for cache in self.caches]
        outputs = Outputs(program, spec, self.arenas, watched, on_output) if watched else None
        self._binder = Binder(program, self.arenas, control, self.streams, self.routing, outputs)
        self._decode: BoundPhase | None = None  # as it ran last
        self._verified_user = -1  # whose pass waits for `keep`
        self.step_times = StepTimes(program, self.arenas) if profile else None
        self._embedding_stage = next(i for i, s in enumerate(program.stages) if s.has_embedding)
        store_weights(program, spec, tensor, self.arenas, allow_nonfinite=allow_nonfinite, on_stored=on_stored)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """float32 ``[users, vocabulary]``, those of the last token run. Only with ``logits_out``."""
        return self.streams.host_logits[: self.program.batch].copy()

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """float32 ``[tokens, vocabulary]``, those of the last pass over several tokens. Only with ``logits_out``."""
        return self.streams.host_logits[self.program.batch :].copy()

    @property
    def tokens(self) -> list[int]:
        """Each user's id that the last phase ended with. Raises BadModel when no logit of one was a number."""
        return self._ids(range(self.program.batch))

    def _ids(self, places: range) -> list[int]:
        """The ids at some places of the host. Errors as of ``tokens``."""
        ids = self.streams.host_tokens[places]
        if (ids < 0).any():
            message = (
                f"{self.program.model_name}: the logits are not numbers: a weight is none, or values overflowed "
                f"{self.program.element_type('act')}; check the weights, or use --dtype bfloat16 or float32"
            )
            raise BadModel(message)
        return list(ids.tolist())

    @property
    def expert_pairs(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """Tokens of the last phase that chose each expert, by layer, int64 ``[experts]``."""
        return self.routing.pairs

    def cache_slots(self, user: int) -> Slots:
        """Cache slots that a user has in use on the fullest row of each stage."""
        return tuple(self.caches[user][stage.rect.rows].slots for stage in self.program.stages)

    def prefill(self, *prompts: Sequence[int], first: int = 0) -> Iterator[int]:
        """Run each user's prompt chunk by chunk; the index of each phase as it is done. Then ``tokens`` follow them.

        Phases before the ``first`` were run before.
        """
        for index, phase in islice(enumerate(self.program.prefill), first, None):
            ids = prompts[phase.user][phase.cached : phase.cached + phase.tokens]
            chunk = np.array(ids, np.float32)
            if phase.on_mesh:  # each row's share, padded to one length
                rows = self.program.stages[self._embedding_stage].rect.rows
                shares = balanced_counts(phase.tokens, rows)
                padded = np.zeros((rows, int(shares.max())), np.float32)
                padded[np.arange(padded.shape[1]) < shares[:, None]] = chunk
                chunk = padded.reshape(-1)
            self.streams.host_ids = chunk
            for cache in self.caches[phase.user].values():
                cache.append_chunk(phase.tokens, replicated=not phase.on_mesh)
            self._run(self._binder.bind(phase, self.cache_slots(phase.user)))
            yield index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and give the ids that follow. ``tokens`` replace the ids that the wafer holds."""
        self._store_ids(0, tokens)
        for of_user in self.caches:
            for cache in of_user.values():
                cache.append_one()
        slots = max(self.cache_slots(user) for user in range(self.program.batch))  # of the longest, in every stage
        if self._decode is None or slots != self._decode.slots:
            self._decode = self._binder.bind(self.program.decode, slots)
        self._run(self._decode)
        return self.tokens

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and give the id that follows each: `keep` says how many count.

        ``tokens`` are the user's next one and those that were drafted after it, as many as the Program was compiled
        for; they stand where a draft's head on the wafer would leave them.

        Raises:
            BadInput: there are not as many, or the user's cache has no room for them.
        """
        program = self.program
        if not program.verify_tokens or len(tokens) != program.verify_tokens:
            message = f"{len(tokens)} tokens to verify: the Program has passes over {program.verify_tokens}"
            raise BadInput(message)
        caches = self.caches[user].values()
        length = next(iter(caches)).length
        if length + len(tokens) > program.context:
            message = f"{len(tokens)} tokens to verify after {length}: the cache holds {program.context}; decode these"
            raise BadInput(message)
        phase = program.verify[user]
        self._store_ids(program.batch, tokens)
        for cache in caches:
            cache.append_each(len(tokens))
        self._run(self._binder.bind(phase, self.cache_slots(user)))
        self._verified_user = user
        return self._ids(program.host_places(phase))

    def keep(self, tokens: int, user: int = 0) -> None:
        """Keep the first ``tokens`` of the last pass of a user and take the others off the cache again.

        The id that followed the last one that is kept is the user's next token.

        Raises:
            BadInput: there are less than 1 or more than the pass had, or its tokens were kept before.
        """
        program = self.program
        if user != self._verified_user or not 1 <= tokens <= program.verify_tokens:
            message = f"{tokens} tokens of user {user} to keep: give 1 to {program.verify_tokens}, once after each pass"
            raise BadInput(message)
        self._verified_user = -1
        for cache in self.caches[user].values():
            cache.take_back(program.verify_tokens - tokens)
        self._store_ids(user, self._ids(program.host_places(program.verify[user]))[tokens - 1 : tokens])

    def _store_ids(self, first: int, tokens: Sequence[int]) -> None:
        """Store ids on all PEs of the embedding's stage, from the place ``first`` on."""
        address, view = self.program.ids_address + first, self.arenas[self._embedding_stage].view("float32")
        view[:, address : address + len(tokens), :] = np.array(tokens, np.float32)[:, None]

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile the kernels that the phases use, as `wse.execute.backend.Backend` has it."""
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
        """int64 ``[wafers, 4, mesh rows, mesh cols]``: words that crossed each link so far."""
        total = self.streams.links.copy()
        for stage, arena in zip(self.program.stages, self.arenas, strict=True):
            r = stage.rect
            for i, wafer in enumerate(stage.wafers):
                words = arena.links[:, :, i * r.cols : (i + 1) * r.cols]
                total[wafer, :, r.row : r.row + r.rows, r.col : r.col + r.cols] += words
        return total

    def _run(self, bound: BoundPhase) -> None:
        if self.step_times is not None:
            self.step_times.run(bound.phase, bound.slots, bound.calls, bound.steps)
        else:
            for function, arguments in bound.calls:
                function(*arguments)
        for (stage, loads), times in bound.loads.items():
            self.arenas[stage].carried[loads] += times
