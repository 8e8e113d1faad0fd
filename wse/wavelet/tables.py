"""The flat arrays that the kernel runs on, made of a Machine by ``wse.wavelet.flatten``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]

INTO_PE: Final = 5  # a queue's side beside the five ports: behind the ramp, in the compute element
FROM_PE: Final = 5  # a link's port beside the five of the router: from compute element to router


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """The kernel's arrays, and what they stand for.

    ``identity`` int32 ``[queue, 3]``: PE, side, colour. ``thread_pe``: the PE of each thread. ``op_order``: the number
    of each operation in the Machine.
    """

    queues: I32
    routes: I32
    links: I32
    members: I32
    routers: I32
    threads: I32
    thread_pe: I32
    ops: I32
    times: I32
    spans: I32
    identity: I32
    op_order: I32
