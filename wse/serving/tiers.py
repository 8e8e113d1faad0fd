"""Service tiers: speeds per user of the plain tier and of the fast tier."""

from __future__ import annotations

from typing import Final

PLAIN_SPEED_TOKENS_PER_S: Final = 50.0
"""Output tokens per second of each user in a plain tier.

Published services of 70B-class models on GPUs give 32, 49, 71 and 128 tokens/s
(wse/data/measurements/public_tokens_per_s.csv).
"""
FAST_TIMES: Final = 2.5
"""Ratio of the speed of a fast tier to that of a plain tier.

A vendor sells a fast mode of up to 2.5 times the speed (source: wse/data/scenarios/fast-mode.toml).
"""
