"""Tiers of a service: the speed that a plain one gives each user, and that of a fast one."""

from __future__ import annotations

from typing import Final

PLAIN_SPEED_TOKENS_PER_S: Final = 50.0
"""A plain service speed for one user: published services of 70B-class models on GPUs give 32, 49, 71 and 128 tokens/s
(wse/data/measurements/public_tokens_per_s.csv)."""
FAST_TIMES: Final = 2.5
"""The speed of a fast tier over that of a plain one: a vendor sells a fast mode of up to 2.5 times the speed
(wse/data/scenarios/fast-mode.toml has the source)."""
