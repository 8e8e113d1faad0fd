"""Arrival codes: what happens when a message arrives at its target.

- 0: replace the stored elements.
- 1: add to them.
- 2: keep the larger element.
- 3: keep the (value, index) pair with the larger value, or with the lower index on a tie.
- 4 (multicast): replace the elements at the target and at every PE on the way.
- 5: copy locally, without the fabric.
- 6: drop the message.
"""

from __future__ import annotations

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY, DROP = range(7)
