"""Arrival codes: the effect of a message at its target. See `wse_kernels.communication.transfers`."""

from __future__ import annotations

__all__ = ["ADD", "ARGMAX", "COPY", "DROP", "MAX", "MULTICAST", "REPLACE"]

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY, DROP = range(7)
