"""The numbers of what happens where a message arrives, as `wse_kernels.transfers` has them."""

from __future__ import annotations

__all__ = ["ADD", "ARGMAX", "COPY", "DROP", "MAX", "MULTICAST", "REPLACE"]

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY, DROP = range(7)
