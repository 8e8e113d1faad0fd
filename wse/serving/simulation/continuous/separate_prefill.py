"""Separate prefill: a machine of its own reads all prompts and sends their caches to the decoder.

A request is admitted when the prefill machine is free and there is room for its cache on the decode
machine. Its prompt is read on the prefill machine alone, and its cache is then moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from wse.serving.simulation.costs.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.outcome import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillMachine:
    """A separate machine that reads prompts one by one and sends KV caches to the decode machine.

    Attributes:
        costs: Times of its passes.
        transfer_s_per_token: Seconds that the cache of one token occupies the link to the decode
            machine. Caches are sent one after another.
        transfer_s_per_state: Seconds that the states of linear attention of one prompt occupy the
            link, whatever its length. They are sent with its cache.
        transfer_s: Latency of the transfer in seconds.
    """

    costs: PassCosts
    transfer_s_per_token: float = 0.0
    transfer_s_per_state: float = 0.0
    transfer_s: float = 0.0


class SeparatePrefill:
    """Simulated state of a separate prefill machine and of its link to the decode machine.

    Attributes:
        machine: The prefill machine.
        free_s: Time from which the machine is free.
        taken_s: Time at which a request was last admitted.
    """

    def __init__(self, machine: PrefillMachine, record: Recorder) -> None:
        """Prepare a prefill machine that has read nothing yet.

        Args:
            machine: The prefill machine.
            record: Recorder of the simulation, which receives the times of requests.
        """
        self.machine = machine
        self.free_s = self.taken_s = -inf
        self._record = record
        self._link_free_s = -inf

    def read(self, request: int, prompt_tokens: int, context: int, *, needed_release: bool) -> float:
        """Read the prompt of a newly admitted request, and send its cache to the decode machine.

        Reading starts when the prefill machine is free.

        Args:
            request: Index of the request.
            prompt_tokens: Length of its prompt.
            context: Tokens of its prompt that are already in the cache.
            needed_release: True if the request fits only because another request has just left, so
                that reading cannot start before the current time. False if it can start when the
                request arrives.

        Returns:
            Time at which the cache has arrived on the decode machine.
        """
        record, costs = self._record, self.machine.costs
        self.taken_s = record.now
        start_s = max(self.free_s, record.now if needed_release else record.arrivals[request])
        part = PromptPart(prompt_tokens - context, context)
        busy_s = costs.round_s(0, 0, (part,))
        record.prefill_busy_s += busy_s
        record.start_s[request], self.free_s = start_s, start_s + busy_s
        prompt_end_s = start_s + busy_s + costs.drain_s(part)
        record.first_s[request] = prompt_end_s + costs.host_s
        sending_s = self.machine.transfer_s_per_token * prompt_tokens + self.machine.transfer_s_per_state
        self._link_free_s = max(self._link_free_s, prompt_end_s) + sending_s
        return self._link_free_s + self.machine.transfer_s
