"""Helper of the client tests: starts `wse serve`, and simulates the arrivals that a client measured."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tests.support.plain_workload import plain_workload, single_blocks
from wse.reports.progress import ignore
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.replicas import simulate_replicas
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.endpoint.server import prepare_endpoint
from wse.studies.options.option import make_request


class Measurement(NamedTuple):
    """Times that a client measured for one request, in seconds of real time."""

    sent_s: float
    first_s: float
    last_s: float


@dataclass(frozen=True, kw_only=True)
class Served:
    """A served machine and the lengths of all requests.

    Attributes:
        options: Options of the machine, by name. All prompts are equal, which matters with ``prefix_cache``.
        prompt_tokens: Tokens of each prompt.
        new_tokens: Tokens of each answer.
        speed: Simulated seconds per second of real time.
    """

    options: dict[str, str | int | bool]
    prompt_tokens: int
    new_tokens: int
    speed: float

    def arguments(self) -> list[str]:
        """Return the options of `wse serve`."""
        options = {"prompt_len": self.prompt_tokens, "new_tokens": self.new_tokens} | self.options
        names = {name: f"--{name.replace('_', '-')}" for name in options}
        return [names[name] if value is True else f"{names[name]}={value}" for name, value in options.items()]

    @contextmanager
    def endpoint(self, model: str) -> Iterator[str]:
        """Start `wse serve`, and yield the address of its API."""
        command = [sys.executable, "-m", "wse", "serve", model, *self.arguments()]
        command += ["--port", "0", "--speed", str(self.speed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().split()[-1]
            finally:
                process.terminate()

    def predicted(self, model: str, measurements: Sequence[Measurement]) -> list[Measurement]:
        """Return the predicted times of requests that were sent at the measured times."""
        request = make_request(
            EndpointRequest, model=model, prompt_len=self.prompt_tokens, new_tokens=self.new_tokens, **self.options
        )
        live = prepare_endpoint(request).live
        machine = live.machines[0].machine
        sent_s = np.array(sorted(measurement.sent_s for measurement in measurements))
        lengths = (np.full(len(sent_s), tokens) for tokens in (self.prompt_tokens, self.new_tokens))
        work = plain_workload((sent_s - sent_s[0]) * self.speed, *lengths)
        shared_tokens = (self.prompt_tokens - 1) // 16 * 16
        work = replace(work, prefix=np.zeros(len(work), np.int64), prefix_tree=single_blocks([shared_tokens]))
        make = partial(ContinuousMachine, costs=machine.costs, policy=machine.policy)
        outcome = simulate_replicas(work, len(live.machines), make, ignore, least_loaded=True)
        times = zip(work.arrival_s, outcome.first_s, outcome.end_s, strict=True)
        return [Measurement(*(float(time) / self.speed for time in row)) for row in times]


def first_token_s(measurements: Sequence[Measurement]) -> list[float]:
    """Return the times to first token, in order of the requests."""
    return [m.first_s - m.sent_s for m in sorted(measurements)]


def per_token_s(measurements: Sequence[Measurement], new_tokens: int) -> list[float]:
    """Return the mean times between two tokens of each answer, in order of the requests."""
    return [(m.last_s - m.first_s) / (new_tokens - 1) for m in sorted(measurements)]
