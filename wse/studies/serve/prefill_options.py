"""The options of the machine that reads prompts, which errors on it name in place of those of the one that decodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wse.errors import WseError
from wse.studies.serve.request import ServeRequest

_OPTION: Final = re.compile(r"--(wafers?|gpus?|stack|mesh)(?![\w-])")


@contextmanager
def prefill_errors(request: ServeRequest) -> Iterator[None]:
    """A context in which a WseError on the placement that reads prompts names the options that it was asked for with.

    >>> from wse.studies.estimate.request import EstimateRequest
    >>> with prefill_errors(ServeRequest(base=EstimateRequest(), prefill="own")):
    ...     raise WseError("--wafers 99: choose at most 5, or a larger --mesh")
    Traceback (most recent call last):
    wse.errors.WseError: --prefill-wafers 99: choose at most 5, or a larger --mesh
    """
    own = own_options(request)
    try:
        yield
    except WseError as error:
        text = _OPTION.sub(lambda found: f"--prefill-{found[1]}" if found[1] in own else found[0], str(error))
        error.args = (text,)
        raise


def own_options(request: ServeRequest) -> frozenset[str]:
    """The options of placement, without ``--``, that prompts have apart from decoding."""
    if request.prefill_gpu is not None:
        return frozenset(("gpu", "gpus", "stack"))
    if request.prefill_wafer is not None:
        return frozenset(("wafer", "wafers"))
    if request.prefill_mesh is not None:
        return frozenset(("mesh",))
    return frozenset(("wafers",) if request.base.gpu is None else ("gpus",))
