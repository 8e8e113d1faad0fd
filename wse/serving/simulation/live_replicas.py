"""LiveReplicas: identical machines that share requests which are not known in advance."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wse.serving.simulation.continuous.live_machine import DueTokens, LiveMachine
from wse.serving.simulation.outcome import Recorder
from wse.serving.simulation.replicas import least_loaded_index


class LiveReplicas:
    """Identical simulated machines, each of which serves some of the requests as they arrive.

    A request goes to a machine by the same rule as in `simulate_replicas`.

    Attributes:
        machines: The machines, at least one.
    """

    def __init__(self, machines: Sequence[LiveMachine], *, least_loaded: bool = True) -> None:
        """Combine machines at time 0, without requests.

        Args:
            machines: The machines.
            least_loaded: Whether a request goes to the machine with the fewest requests in flight.
                Otherwise, requests go to the machines round-robin.
        """
        self.machines = tuple(machines)
        self._least_loaded, self._added = least_loaded, 0

    @property
    def prefix_block_tokens(self) -> int | None:
        """Tokens per block of prefixes, as in `LiveMachine`."""
        return self.machines[0].prefix_block_tokens

    @property
    def has_kv_tiers(self) -> bool:
        """True if prefixes for which the KV caches have no room are stored in tiers."""
        return self.machines[0].has_kv_tiers

    @property
    def running_requests(self) -> int:
        """Number of requests that have been admitted and have not left."""
        return sum(machine.running_requests for machine in self.machines)

    @property
    def queue_length(self) -> int:
        """Number of requests that wait for admission."""
        return sum(machine.queue_length for machine in self.machines)

    @property
    def backlog(self) -> int:
        """Number of requests minus number of batch slots. It is negative if slots are free."""
        return sum(machine.backlog for machine in self.machines)

    @property
    def kv_fraction(self) -> float:
        """Fraction of the KV-cache capacity of all machines that is reserved."""
        return sum(machine.kv_fraction for machine in self.machines) / len(self.machines)

    def record_of(self, request: int) -> tuple[Recorder, int]:
        """Return the recorder of the machine that serves a request, and the request's index there."""
        machine, own_request = self._place(request)
        return machine.machine.record, own_request

    def add(self, arrival_s: float, prompt_tokens: int, new_tokens: int, prefix_hashes: Sequence[Hashable] = ()) -> int:
        """Choose a machine for a request, add it there, and return its index among all requests.

        The arguments are the same as for `LiveMachine.add`.
        """
        self.run_until(arrival_s)
        count = len(self.machines)
        index = self._added % count
        if self._least_loaded:
            index = least_loaded_index([machine.machine for machine in self.machines])
        self._added += 1
        own_request = self.machines[index].add(arrival_s, prompt_tokens, new_tokens, prefix_hashes)
        return own_request * count + index

    def cancel(self, request: int, now_s: float) -> None:
        """End a request early, as `LiveMachine.cancel` does."""
        machine, own_request = self._place(request)
        machine.cancel(own_request, now_s)

    def run_until(self, time_s: float) -> None:
        """Simulate all machines until ``time_s``, and on to the ends of their rounds in progress."""
        for machine in self.machines:
            machine.run_until(time_s)

    def next_tokens_s(self) -> float:
        """Return when a reader gets the next tokens; infinity if no tokens are due."""
        return min(machine.next_tokens_s() for machine in self.machines)

    def pop_tokens(self, time_s: float) -> list[DueTokens]:
        """Remove and return the tokens that readers get until ``time_s``, in order of time."""
        count = len(self.machines)
        due_tokens = [
            due._replace(request=due.request * count + index)
            for index, machine in enumerate(self.machines)
            for due in machine.pop_tokens(time_s)
        ]
        return sorted(due_tokens)

    def next_change_s(self) -> float:
        """Return the time at which the simulation must continue if no request arrives before."""
        return min(machine.next_change_s() for machine in self.machines)

    def _place(self, request: int) -> tuple[LiveMachine, int]:
        """Return the machine that serves a request, and the index of the request on this machine."""
        own_request, index = divmod(request, len(self.machines))
        return self.machines[index], own_request
