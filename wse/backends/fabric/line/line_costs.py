"""Costs of hops, ramps and vector operations of a collective, from the wafer and its software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from wse.arrays import I64
from wse.hardware.spec import SoftwareProfile, WaferSpec, burst_words

WordCount = TypeVar("WordCount", int, I64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCosts:
    """Cycle counts and queue sizes that determine how long messages along a line of PEs take.

    Attributes:
        hop: Cycles per hop.
        ramp: Cycles per ramp, the connection between a PE and its router.
        gap: Cycles between the end of one operation of a PE and the start of the next.
        words_per_cycle: Rate at which a PE sends or receives words.
        queue_words: Capacity, in words, of the queue of one colour at a router port.
        relay: Cycles that software adds at a PE that receives words and forwards them.
        sync: Cycles to start and await a transfer between neighbours, including the path of its
            first word.
    """

    hop: int
    ramp: int
    gap: int
    words_per_cycle: float
    queue_words: int
    relay: int = 0
    sync: int = 0

    @classmethod
    def of(cls, wafer: WaferSpec, gap: int, relay: int = 0, sync: int = 0) -> LineCosts:
        """Return the costs of messages along a line of PEs, given the costs of the software.

        Args:
            wafer: Wafer type, which determines the costs of the hardware.
            gap: Cycles between two operations of a PE.
            relay: Cycles that software adds when a PE relays words.
            sync: Cycles to start and await a transfer.
        """
        return cls(
            hop=wafer.hop_cycles,
            ramp=wafer.ramp_cycles,
            gap=gap,
            words_per_cycle=wafer.stream_words_per_cycle,
            queue_words=wafer.router_queue_words,
            relay=relay,
            sync=sync,
        )

    @classmethod
    def for_software(cls, wafer: WaferSpec, software: SoftwareProfile) -> LineCosts:
        """Return the costs of messages along a line of PEs, for a wafer type and a software profile.

        Args:
            wafer: Wafer type.
            software: Software profile, with the costs of relays and of starting operations.
        """
        return cls.of(wafer, software.reduce_gap_cycles, software.relay_cycles, software.transfer_sync_cycles)

    @property
    def relay_latency(self) -> int:
        """Cycles from the arrival of a word at a relaying PE's router until it leaves again.

        This latency consists of both ramps and one addition.
        """
        return 2 * self.ramp + 1

    @property
    def hop_room(self) -> int:
        """Maximum number of words that can wait between two routers, in a queue and on the wire."""
        return self.queue_words + self.hop - 1

    @property
    def relay_room(self) -> int:
        """Maximum number of words that can wait at a relay, on its two ramps and in their queues.

        A relay is a PE that receives words over one ramp and sends them on over the other.
        """
        return 2 * self.queue_words + 2 * self.ramp - 1

    @property
    def waiting_words(self) -> int:
        """Maximum number of arrived words that can wait at a PE, in its queue and on its ramp."""
        return self.queue_words + self.ramp - 1

    def tail(self, words: WordCount) -> WordCount:
        """Return the number of cycles from the first to the last word of a stream.

        Each word needs one cycle. A pause of one cycle follows every burst of `burst` words.

        Args:
            words: Number of words of a stream, or int64 ``[n]`` for several streams.
        """
        return words - 1 + ((words - 1) // self.burst if self.burst else 0)

    @property
    def burst(self) -> int:
        """Number of words between two pauses of a vector operation; 0 if there are no pauses."""
        return burst_words(self.words_per_cycle)
