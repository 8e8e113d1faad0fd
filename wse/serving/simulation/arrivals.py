"""Arrival processes of random requests.

- ``poisson``: independent requests, with exponentially distributed times between arrivals
- ``constant``: equally spaced arrivals, or a constant number of users, each of whom sends the next
  request when an answer ends
- ``bursts``: groups of requests that arrive together; groups arrive as in ``poisson``
"""

from __future__ import annotations

from typing import Final, Literal

Arrivals = Literal["poisson", "constant", "bursts"]
ARRIVALS: Final[tuple[Arrivals, ...]] = ("poisson", "constant", "bursts")
POISSON, CONSTANT, BURSTS = ARRIVALS
