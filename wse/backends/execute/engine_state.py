"""State of an engine that a checkpoint saves, and the cache counters of all users.

The state contains the parts of SRAM that a later pass reads (caches and token ids), the counters of
the caches, the numbers of words on links, and the host's last ids and logits. Activations are not
saved, because every pass computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.streams import Streams
from wse.backends.execute.host_memory.arena import Arena
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse_mappings.cuts.cache_balance import CacheBalance


class Caches:
    """KV cache counters of all users: how many tokens each row of PEs stores.

    Attributes:
        by_user: For each user, the counters, keyed by the row count of a region. Regions with
            different row counts distribute the tokens differently.
    """

    def __init__(self, program: Program) -> None:
        self._heights = [stage.rect.rows for stage in program.stages]
        heights = dict.fromkeys(self._heights)
        self.by_user = [{rows: CacheBalance(rows, program.context) for rows in heights} for _ in range(program.batch)]

    def slots(self, user: int) -> Slots:
        """Return how many cache slots of a user are in use, for each stage.

        A stage is a part of the model, stored on one region of PEs. A cache slot stores the keys
        and values of one token. Slots are counted on the row of PEs with the most tokens.
        """
        return tuple(self.by_user[user][rows].slots for rows in self._heights)

    def length(self, user: int) -> int:
        """Return the number of tokens in a user's cache."""
        return self.by_user[user][self._heights[0]].length

    def append(self, phase: Phase) -> None:
        """Count the tokens of a phase as stored in the KV caches of its users; called when it begins.

        Args:
            phase: A prefill chunk, a decode pass or a verification pass.
        """
        changed_caches = self.by_user if phase.user < 0 else [self.by_user[phase.user]]
        for cache in (cache for by_rows in changed_caches for cache in by_rows.values()):
            if phase.name == "prefill":
                cache.append_chunk(phase.tokens, replicated=not phase.on_mesh)
            elif phase.name == "verify":
                cache.append_each(phase.tokens)
            else:
                cache.append_one()

    def remove_last(self, user: int, tokens: int) -> None:
        """Remove the last tokens of a user from the counters, such as rejected draft tokens.

        Args:
            user: Index of the user.
            tokens: Number of tokens to remove.
        """
        for cache in self.by_user[user].values():
            cache.remove_last(tokens)


class StatefulParts(Protocol):
    """Protocol for objects with the attributes of an engine that make up the state of a run.

    Attributes:
        program: The compiled Program.
        arenas: Emulated SRAM of each stage in this process, keyed by the index of the stage.
        caches: Counters of the users' KV caches.
        streams: Data exchanged with the host, and counters of words.
    """

    program: Program
    arenas: dict[int, Arena]
    caches: Caches
    streams: Streams


def state_of(engine: StatefulParts) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays from which `restore` resumes a run, keyed by name.

    Some of the arrays are views of the engine's memory and change with the next pass.
    """
    program, streams = engine.program, engine.streams
    wafers, mesh = program.wafers, (program.wafer_rows, program.wafer_cols)
    crossed_bytes = np.zeros((wafers + 1, wafers + 1), np.int64)  # [1 + source, 1 + target]: the host is wafer -1
    for (source, target), size in streams.crossed.items():
        crossed_bytes[1 + source, 1 + target] = size
    arrays: dict[str, npt.NDArray[Any]] = {name: np.concatenate(views, axis=1) for name, views in _memory(engine)}
    arrays |= {f"links.{i}": arena.links for i, arena in engine.arenas.items()}
    return arrays | {
        **counters_of(engine.caches),
        "links": np.array(list(streams.links.values()), np.int64).reshape(-1, 4, *mesh),
        "crossed": crossed_bytes,
        "host_logits": streams.host_logits,
        "host_tokens": streams.host_tokens,
    }


def restore(engine: StatefulParts, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Set an engine to the state of another engine of the same Program.

    Args:
        engine: The engine to change.
        arrays: State from `state_of`.

    Raises:
        ValueError: An array is missing, or its type or shape is not what the Program requires.
    """
    required_arrays = state_of(engine)
    for name, array in required_arrays.items():
        saved_array = arrays.get(name)
        if saved_array is None or (saved_array.dtype, saved_array.shape) != (array.dtype, array.shape):
            description = "is missing" if saved_array is None else f"{saved_array.dtype} {list(saved_array.shape)}"
            raise ValueError(f"{name}: {description}, needed: {array.dtype} {list(array.shape)}")
    for name, views in _memory(engine):
        at = 0
        for view in views:
            view[...] = arrays[name][:, at : at + view.shape[1]]
            at += view.shape[1]
    for name, counters in counters_of(engine.caches).items():
        counters[...] = arrays[name]
    for i, arena in engine.arenas.items():
        arena.links[...] = arrays[f"links.{i}"]
    streams, crossed_bytes = engine.streams, arrays["crossed"]
    streams.crossed.clear()
    for source, target in np.argwhere(crossed_bytes).tolist():
        streams.crossed[source - 1, target - 1] = int(crossed_bytes[source, target])
    for link_words, saved_words in zip(streams.links.values(), arrays["links"], strict=True):
        link_words[...] = saved_words
    streams.host_logits[...] = arrays["host_logits"]
    streams.host_tokens[...] = arrays["host_tokens"]


def counters_of(caches: Caches) -> dict[str, npt.NDArray[np.int32]]:
    """Return the cache counters of all users as arrays, keyed by ``cache.<user>.<rows>.<name>``.

    The counters depend only on the sequence of passes, so another process can compute them without
    reading the state.
    """
    return {
        f"cache.{user}.{rows}.{name}": array
        for user, by_rows in enumerate(caches.by_user)
        for rows, cache in by_rows.items()
        for name, array in cache.counters.items()
    }


def _memory(engine: StatefulParts) -> Iterator[tuple[str, list[npt.NDArray[np.uint8]]]]:
    """Yield the contents of the buffers whose values must survive from one pass to the next.

    Yields:
        For each stage, the key of its memory in the state, and the bytes of each such buffer as a
        view ``[blocks, bytes x lanes]``. A lane is one PE of a block of neighbouring PEs.
    """
    for number, arena in engine.arenas.items():
        live_buffers = [
            buffer
            for buffer in engine.program.buffers
            if buffer.stage == number and not buffer.live and buffer.use not in ("code", "weights")
        ]
        yield f"memory.{number}", [_bytes(arena, buffer.address, buffer.bytes) for buffer in live_buffers]


def _bytes(arena: Arena, address: int, count: int) -> npt.NDArray[np.uint8]:
    """Return ``count`` bytes of every PE, starting at an address, as ``[blocks, count x lanes]``.

    A block stores the bytes of its PEs (lanes) in turns: element 0 of each lane, then element 1 of
    each lane, and so on.
    """
    first = (address - arena.base_byte) * arena.lanes
    return arena.memory.reshape(arena.blocks, -1)[:, first : first + count * arena.lanes]
