"""The engine: a Program, its weights in SRAM, and the tokens that run through it one phase at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from wse.errors import BadModel, WseBug
from wse.execute.arena import Arena
from wse.execute.bind import Binder, Call
from wse.execute.streams import Draw, Streams
from wse.execute.tiles import Source
from wse.execute.weights import store_weights
from wse.models.spec import ModelSpec
from wse.program import Program
from wse_kernels.library import make_ready
from wse_mappings.cache_balance import CacheBalance
from wse_mappings.split import balanced_counts


class Engine:
    """Executes a Program.

    ``tensor`` gives canonical tensors by name. ``draw`` picks the next id from float32 logits when the Program samples
    on the host. Raises ValueError when it does and there is no ``draw``, WseBug when it does not fit.
    """

    def __init__(
        self, program: Program, spec: ModelSpec, tensor: Callable[[str], Source], draw: Draw | None = None
    ) -> None:
        if program.sampling == "host" and draw is None:
            message = "the Program samples on the host: give draw"
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
        self.arenas = [Arena(s.rect.rows, s.rect.cols, s.sram_base_byte, s.sram_top_byte) for s in program.stages]
        self.streams = Streams(program, draw)
        self.cache = CacheBalance(program.stages[0].rect.rows, program.context)
        self._binder = Binder(program, self.arenas, self.cache.control, self.streams)
        self._calls: dict[tuple[int, int], list[Call]] = {}
        self._embedding_stage = next(i for i, s in enumerate(program.stages) if s.has_embedding)
        store_weights(program, spec, tensor, self.arenas)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """float32 ``[vocabulary]``, those of the last token run. Only with ``logits_out``."""
        return self.streams.host_logits.copy()

    @property
    def token(self) -> int:
        """The id that the last phase ended with. Raises BadModel when no logit was a number."""
        if self.streams.host_token < 0:
            message = (
                f"{self.program.model_name}: the logits are not numbers: a weight is none, or values overflowed "
                f"{self.program.element_type('act')}; check the weights, or use --dtype bfloat16 or float32"
            )
            raise BadModel(message)
        return self.streams.host_token

    def prefill(self, ids: Sequence[int]) -> Iterator[int]:
        """Run the prompt chunk by chunk; the index of each, as it is done. Then ``token`` follows the prompt."""
        start = 0
        for index, phase in enumerate(self.program.prefill):
            chunk = np.array(ids[start : start + phase.tokens], np.float32)
            start += phase.tokens
            if phase.on_mesh:  # each row's share, padded to one length
                shares = balanced_counts(phase.tokens, self.cache.rows)
                padded = np.zeros((self.cache.rows, int(shares.max())), np.float32)
                padded[np.arange(padded.shape[1]) < shares[:, None]] = chunk
                chunk = padded.reshape(-1)
            self.streams.host_ids = chunk
            self.cache.append_chunk(phase.tokens, replicated=not phase.on_mesh)
            self._run(index)
            yield index

    def decode(self, token: int | None = None) -> int:
        """Run one token and give the id that follows. ``token`` replaces the id that the wafer holds."""
        if token is not None:
            arena = self.arenas[self._embedding_stage]
            arena.view("float32")[:, self.program.ids_address, :] = np.float32(token)
        self.cache.append_one()
        self._run(len(self.program.phases) - 1)
        return self.token

    def make_ready(self, report: Callable[[int, int, str], None]) -> None:
        """Compile the kernels that the phases use; ``report`` hears (done, all, name) before each."""
        distinct: dict[tuple[int, ...], Call] = {}
        for phase in self.program.phases:
            slots = CacheBalance.slots_after(phase.cached + phase.tokens, self.cache.rows)
            for call in self._binder.bind(phase, slots):
                function, arguments = call
                types = tuple(id(getattr(a, "dtype", None)) for a in arguments)
                distinct.setdefault((id(function), *types), call)
        for done, (function, arguments) in enumerate(distinct.values()):
            report(done, len(distinct), getattr(function, "__name__", ""))
            make_ready(function, arguments)
        report(len(distinct), len(distinct), "")

    def link_words(self) -> npt.NDArray[np.int64]:
        """int64 ``[wafers, 4, mesh rows, mesh cols]``: words that crossed each link so far."""
        total = self.streams.links.copy()
        for stage, arena in zip(self.program.stages, self.arenas, strict=True):
            r = stage.rect
            total[stage.wafer, :, r.row : r.row + r.rows, r.col : r.col + r.cols] += arena.links
        return total

    def _run(self, index: int) -> None:
        key = (index, self.cache.slots)
        if key not in self._calls:
            for old in [k for k in self._calls if k[0] == index]:
                del self._calls[old]
            self._calls[key] = self._binder.bind(self.program.phases[index], self.cache.slots)
        for function, arguments in self._calls[key]:
            function(*arguments)
