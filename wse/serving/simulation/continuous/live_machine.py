"""LiveMachine: a simulated machine whose requests are not known in advance.

Requests are added while the simulation runs, and can be cancelled. In a round, each user gets one
decode pass. A round is simulated as a whole when it starts, so the times of its tokens are known
before they are due.

Times are equal to those of a simulation that knows all requests, with one exception: a request that
arrives during a round, and fits only because another one leaves at the end of this round, may be
read up to one round earlier.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

import numpy as np

from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.costs.pass_costs import PassCosts
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.kv.prefixes import PrefixTreeBuilder
from wse.serving.simulation.workload import Workload
from wse_mappings.rounding import round_up

PREFIX_BLOCK_TOKENS: Final = 16
"""Minimum number of tokens in the blocks by which common prefixes of prompts are recognised."""


class DueTokens(NamedTuple):
    """The number of tokens of an answer that its reader has from a certain time on.

    Attributes:
        at_s: Time at which the reader gets the last of these tokens.
        request: Index of the request.
        tokens: Number of tokens from the start of the answer.
    """

    at_s: float
    request: int
    tokens: int


class LiveMachine:
    """A simulated machine that serves requests as they arrive, with continuous batching.

    Attributes:
        machine: The simulation. Its request 0 is only a template of typical lengths and is never
            served.
        prefix_block_tokens: Tokens per block by which common prefixes of prompts are recognised;
            None if prefixes are not kept.
    """

    def __init__(
        self,
        workload: Workload,
        costs: PassCosts,
        policy: ContinuousPolicy,
        *,
        prefill: PrefillMachine | None = None,
        drafts: Drafts | None = None,
    ) -> None:
        """Prepare a machine at time 0, without requests.

        Args:
            workload: Requests with typical lengths. The first one serves as a template.
            costs, policy, prefill, drafts: See `ContinuousMachine`.
        """
        self._tree = PrefixTreeBuilder()
        self._template = workload.part(np.zeros(1, np.int64)).without_prefixes()
        self._due: list[DueTokens] = []
        self._new_tokens: dict[int, int] = {}  # of each request that has not ended
        block_tokens = round_up(PREFIX_BLOCK_TOKENS, costs.reused_tokens_multiple)
        self.prefix_block_tokens = block_tokens if policy.prefix_cache else None
        self.machine = ContinuousMachine(
            self._template, costs, policy, requests=(), prefill=prefill, drafts=drafts, observer=self
        )

    @property
    def has_kv_tiers(self) -> bool:
        """True if prefixes for which the KV cache has no room are stored in tiers."""
        return bool(self.machine.policy.kv_tiers)

    @property
    def running_requests(self) -> int:
        """Number of requests that have been admitted and have not left."""
        return self.machine.policy.max_users - self.machine.admission.free_slots

    @property
    def queue_length(self) -> int:
        """Number of requests that wait for admission."""
        return self.machine.in_flight - self.running_requests

    @property
    def backlog(self) -> int:
        """Number of requests minus number of batch slots. It is negative if slots are free."""
        return self.machine.in_flight - self.machine.policy.max_users

    @property
    def kv_fraction(self) -> float:
        """Fraction of the KV-cache capacity that is reserved, without unused prefixes."""
        return self.machine.admission.room.reserved / self.machine.costs.kv_capacity_tokens

    def add(self, arrival_s: float, prompt_tokens: int, new_tokens: int, prefix_hashes: Sequence[Hashable] = ()) -> int:
        """Add a request, and return its index.

        Args:
            arrival_s: Arrival time in seconds. Requests must be added in the order of arrival.
            prompt_tokens: Length of the prompt.
            new_tokens: Maximum length of the answer. Prompt and answer together must fit in the KV
                cache.
            prefix_hashes: Hash of each block of ``prefix_block_tokens`` prompt tokens that ends
                before the last token. They are stored as long as the machine exists. Empty if
                prefixes are not kept.
        """
        self.run_until(arrival_s)
        request, known_blocks = len(self.machine.prompts), len(self._tree)
        last_block = self._tree.add(prefix_hashes, self.prefix_block_tokens or 0)
        workload = replace(
            self._template,
            arrival_s=np.array([arrival_s]),
            prompt_tokens=np.array([prompt_tokens]),
            new_tokens=np.array([new_tokens]),
            prefix=np.array([last_block]),
            prefix_tree=self._tree.tree(known_blocks),
        )
        self.machine.extend(workload)
        self._new_tokens[request] = new_tokens
        self.machine.offer(request)
        return request

    def cancel(self, request: int, now_s: float) -> None:
        """End a request early. A request whose answer is complete is left unchanged.

        A request that waits, or whose prompt is being loaded or read, leaves now. A user in flight
        leaves after the next decode pass, because passes are not interrupted.

        Args:
            request: Index of the request.
            now_s: Current time.
        """
        if self._new_tokens.pop(request, None) is None:
            return
        self.run_until(now_s)
        machine = self.machine
        if machine.admission.remove(request):
            machine.record.leave(request, machine.record.now)
        elif (
            machine.loads.remove(request)
            or machine.reader.remove(request, machine.admission.tiers[request])
            or machine.ready.remove(request)
        ):
            machine.leave(request, machine.record.now)
        elif any(user == request for user, _ in machine.rounds.users.unfinished_passes()):
            machine.rounds.users.end_after_next_pass(request)

    def run_until(self, time_s: float) -> None:
        """Simulate until ``time_s``, and on to the end of the round in progress at that time.

        In a round, each user gets one decode pass.
        """
        self.machine.run_until(time_s)
        self.machine.record.drop_decode_runs()  # the memory of a long simulation would grow with every round

    def next_tokens_s(self) -> float:
        """Return when a reader gets the next tokens; infinity if no tokens are due.

        Only tokens of decode passes that have been simulated are considered.
        """
        return self._due[0].at_s if self._due else inf

    def pop_tokens(self, time_s: float) -> list[DueTokens]:
        """Remove and return the tokens that readers get until ``time_s``, in order of time.

        Tokens of cancelled requests are removed but not returned.
        """
        due: list[DueTokens] = []
        while self._due and self._due[0].at_s <= time_s:
            entry = heappop(self._due)
            new_tokens = self._new_tokens.get(entry.request)
            if new_tokens is not None:  # not cancelled
                due.append(entry)
                if entry.tokens == new_tokens:
                    del self._new_tokens[entry.request]
        return due

    def next_change_s(self) -> float:
        """Return the time at which the simulation must continue if no request arrives before.

        This is the current time if requests are being processed, and infinity if there are none.
        """
        machine = self.machine
        if machine.record.is_done:
            return inf
        has_only_prompts = machine.reader.is_reading and not machine.rounds.users.count
        if has_only_prompts and machine.policy.prompt_tokens is None:
            return machine.record.now + machine.reader.first_unread_s()
        can_admit = machine.prefill is None and machine.admission.head_fits
        if can_admit or machine.reader.is_reading or machine.rounds.users.count:
            return machine.record.now
        machine.horizon_s = inf
        return max(machine.record.now, machine.next_change())

    # Observer of the simulation

    def first_token(self, request: int, at_s: float) -> None:
        """Store when the reader gets the first token of an answer."""
        heappush(self._due, DueTokens(at_s, request, 1))

    def next_tokens(self, request: int, unfinished_passes: int, at_s: float) -> None:
        """Store when the reader gets the tokens of a decode pass.

        With speculative decoding, the tokens of an answer are distributed evenly across its passes.
        """
        new_tokens = self._new_tokens.get(request)
        if new_tokens is not None:
            passes = self.machine.answers.passes[request]
            tokens = 1 + (new_tokens - 1) * (passes - unfinished_passes) // passes
            heappush(self._due, DueTokens(at_s, request, tokens))
