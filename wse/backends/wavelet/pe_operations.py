"""Operations of PEs: builder that adds the operations of planned patterns to a WaveletMachine.

- A receive that combines words, followed by a send of the PE, becomes one fused operation. The sums
  are also stored, as the schedule says; without storing, the time would be the same.
- Receives that only store words run on threads of their own, one per colour, alongside the PE's
  main thread.
- If words are divided into parts, as in a ring all-reduce, nothing is fused, and sends have a
  thread of their own, so that all PEs can send before they receive. A send waits for the operation
  that wrote its part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wse.arrays import I32, Bools
from wse.backends.wavelet.machine import Operation, WaveletMachine
from wse.backends.wavelet.plan import Flow, Plan
from wse_mappings.schedule import COMBINING, Arrival

SENDS, STORES = 1, 2  # threads in addition to the main one: for separate sends, and for stores (one per colour)


@dataclass(frozen=True, slots=True)
class WordParts:
    """Addresses of a pattern's words in the memory of a PE, and their division into parts.

    Attributes:
        words: Number of words.
        parts: Number of parts; 1 if the words are not divided.
        source: Address of the words that are sent.
        target: Address where words arrive.
    """

    words: int
    parts: int
    source: int
    target: int

    def address(self, part: int, base: int) -> int:
        """Return the address of the first word of a part of the pattern's words.

        Args:
            part: Index of the part.
            base: Address of the first word of part 0.
        """
        return base + part * self.words // self.parts

    def words_of(self, part: int) -> int:
        """Return the number of words of a part."""
        return self.address(part + 1, 0) - self.address(part, 0)


@dataclass(slots=True, kw_only=True)
class PeOperations:
    """Builder that adds operations to the PEs of a WaveletMachine.

    A PE executes its operations in the order in which they are added.

    Attributes:
        machine: The machine to configure.
        gap_cycles: Cycles between two vector operations on the main thread of a PE.
        relay_cycles: Cycles that software adds to a receive that is fused with a send.
        add_cycles: Cycles to add a stored message to a PE's own words, before its next operation.
        main: Number of the main thread; the other threads have the numbers after it.
        last_writes: Keys are addresses; values are int32 ``[PEs]``, the last operation on another
            thread that writes there, or -1.
        last_reads: Keys are addresses; values are int32 ``[PEs]``, the last operation that reads
            there, or -1.
        adding: bool ``[PEs]``: whether a PE's last operation on the main thread stored a message
            that must still be added.
    """

    machine: WaveletMachine
    gap_cycles: int
    relay_cycles: int
    add_cycles: int
    main: int
    last_writes: dict[int, I32] = field(default_factory=dict)
    last_reads: dict[int, I32] = field(default_factory=dict)
    adding: Bools = field(init=False)

    def __post_init__(self) -> None:
        """Initialise ``adding`` (PEs with a stored message that they must still add) to no PE."""
        self.adding = np.zeros(self.machine.rows * self.machine.cols, bool)

    def add(self, plan: Plan, numbers: I32, word_parts: WordParts, colour: int) -> None:
        """Add the operations of a planned pattern to the PEs of parallel lines.

        1. Operations without words are skipped.
        2. A receive that only stores runs on a thread of its own.
        3. Other operations run on the main thread. If words are divided into parts, operations that
           send run on a separate thread.
        4. Operations that are added later must not overwrite words before they have been read, nor
           read words before they have been received. The operation is therefore recorded as the
           last one that reads its address. If words are divided into parts and it receives words,
           it is also recorded as the last one that writes there.

        Args:
            plan: Streams, switch positions and operations of the pattern.
            numbers: int32 ``[lines, places]``, PEs of the lines.
            word_parts: Addresses of the words, and their division into parts.
            colour: First colour to use, which is added to each colour number of the plan.
        """
        first = self.machine.operations
        for step in plan.operations:
            pes, part = numbers[:, step.place], step.flow.part
            words = word_parts.words_of(part) if step.flow.words is None else step.flow.words
            if words == 0:  # 1
                continue
            if step.receive and step.receive.arrival not in COMBINING:  # 2
                at = word_parts.address(part, word_parts.target) + step.receive.slot * word_parts.words
                self._store(pes, colour, step.receive, at, words, first)
                continue
            address = word_parts.address(part, word_parts.source if step.send else word_parts.target)
            operation = Operation(
                receive=colour + step.receive.colour if step.receive else -1,
                send=colour + step.send.colour if step.send else -1,
                arrival=step.receive.arrival if step.receive else Arrival.REPLACE,
                address=address,
                words=words,
                mark=step.send is not None and plan.carries_control_bit(step.send),
                gap_cycles=self.gap_cycles + (self.add_cycles if self.adding[pes].any() else 0),
                delay_cycles=self.relay_cycles if step.receive and step.send else 0,
            )
            thread = SENDS if step.send and word_parts.parts > 1 else 0  # 3
            numbers_of = self.machine.operate(
                pes, self.main + thread, operation, self._last(self.last_writes, address)[pes]
            )
            self.adding[pes] = step.send is None  # 4
            self._last(self.last_reads, address)[pes] = numbers_of
            if word_parts.parts > 1 and step.receive:
                self._last(self.last_writes, address)[pes] = numbers_of

    def _store(self, pes: I32, colour: int, flow: Flow, address: int, words: int, first: int) -> None:
        """Add an operation that stores received words, on a thread other than the main one.

        The operation overwrites words, so it waits for the last earlier operation that reads them.
        There is one exception: results of a multicast do not wait for an operation of the same
        pattern, because they can only arrive after it has read the words.

        Args:
            pes: int32 ``[lines]``: PEs that receive.
            colour: First colour to use, which is added to each colour number of the pattern.
            flow: The received stream.
            address: Address where the words are stored.
            words: Number of words.
            first: Index of the first operation of the pattern, to recognise operations of other
                patterns.
        """
        reader = self._last(self.last_reads, address)[pes]
        is_stored = flow.arrival != Arrival.DROP
        waits = is_stored & ((reader < first) | (flow.arrival == Arrival.REPLACE))
        operation = Operation(receive=colour + flow.colour, arrival=flow.arrival, address=address, words=words)
        stores = self.machine.operate(pes, self.main + STORES + flow.colour, operation, np.where(waits, reader, -1))
        if is_stored:
            self._last(self.last_writes, address)[pes] = stores

    def _last(self, last_by_address: dict[int, I32], address: int) -> I32:
        """Return, for each PE, the last operation that used a memory address, int32 ``[PEs]``.

        The value is -1 for a PE without such an operation. The caller updates the returned array.
        """
        if address not in last_by_address:
            last_by_address[address] = np.full(self.machine.rows * self.machine.cols, -1, np.int32)
        return last_by_address[address]
