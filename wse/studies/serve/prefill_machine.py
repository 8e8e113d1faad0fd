"""The machine that reads prompts, where that is another than the one that decodes.

Errors on it name the options that it was requested with, such as ``--prefill-wafers`` instead of ``--wafers``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from wse.errors import BadInput, WseError
from wse.hardware.mesh import parse_mesh
from wse.serving.prices import prices_of_gpu, prices_without_gpus
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, check_machine, prepare_gpu_estimate
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.serve.request import ServeRequest

Placement = PreparedEstimate | PreparedGpuEstimate
"""A model on wafers, or on GPUs."""

_OPTION: Final = re.compile(r"--(wafers?|gpus?|stack|mesh)(?![\w-])")


def prepare_machine(placement: EstimateRequest) -> Placement:
    """Return the placement of a request, on wafers or GPUs."""
    check_machine(placement)
    return prepare_estimate(placement) if placement.gpu is None else prepare_gpu_estimate(placement)


def _other_machine(request: ServeRequest, placement: EstimateRequest) -> EstimateRequest:
    """The placement of the same model, types and lengths on GPUs where wafers decode, or on wafers where GPUs do."""
    own = request.prefilling
    shared = make_request(
        EstimateRequest,
        model=placement.model,
        dtype=placement.types.dtype,
        prompt_len=placement.workload.prompt_len,
        new_tokens=placement.workload.new_tokens,
        economics=placement.costs.economics,
    )
    if own.prefill_gpu is not None:
        price = prices_of_gpu(request.base.costs.price, own.prefill_gpu)
        gpu, gpus, stack = own.prefill_gpu, own.prefill_gpus, own.prefill_stack
        return replace_options(shared, gpu=gpu, gpus=gpus, stack=stack, price=price)
    assert own.prefill_wafer is not None
    assert request.base.gpu is not None  # `_check` has refused the request otherwise
    price = prices_without_gpus(request.base.costs.price, [request.base.gpu])
    return replace_options(shared, wafer=own.prefill_wafer, wafers=own.prefill_wafers, price=price)


def prefill_machine(request: ServeRequest, placement: EstimateRequest) -> Placement:
    """Return the placement that reads prompts; errors on it name its own options."""
    with prefill_errors(request):
        return _prefill(request, placement)


def _prefill(request: ServeRequest, placement: EstimateRequest) -> Placement:
    """Return the placement that reads prompts: on wafers or GPUs of its own, or on a part of the wafers that decode."""
    own = request.prefilling
    placement = replace_options(placement, draft=None, draft_model=None, draft_place=None, users=None, replicas=1)
    if own.prefill_gpu is not None or own.prefill_wafer is not None:
        return prepare_machine(_other_machine(request, placement))
    if placement.gpu is not None:
        return prepare_gpu_estimate(replace_options(placement, gpus=own.prefill_gpus or placement.gpu_serving.gpus))
    if own.prefill_mesh is None:
        return prepare_estimate(replace(placement, wafers=own.prefill_wafers or placement.wafers))
    if request.base.machine.mesh is None or own.prefill_wafers is not None:
        message = (
            f"--prefill-mesh {own.prefill_mesh}: is beside the --mesh that decodes, on the same wafers; give "
            "--mesh, and no --prefill-wafers"
        )
        raise BadInput(message)
    prepared = prepare_estimate(replace_options(placement, mesh=own.prefill_mesh))
    sizes = [parse_mesh(mesh) for mesh in (request.base.machine.mesh, own.prefill_mesh)]
    (rows, cols), (more_rows, more_cols) = sizes
    whole = prepared.whole
    is_below = rows + more_rows <= whole.mesh_rows and max(cols, more_cols) <= whole.mesh_cols
    is_beside = cols + more_cols <= whole.mesh_cols and max(rows, more_rows) <= whole.mesh_rows
    if not (is_below or is_beside):
        message = (
            f"--mesh {request.base.machine.mesh} and --prefill-mesh {own.prefill_mesh}: a wafer has "
            f"{whole.mesh_rows}x{whole.mesh_cols} PEs, where they do not fit beside each other; give smaller ones"
        )
        raise BadInput(message)
    return prepared


@contextmanager
def prefill_errors(request: ServeRequest) -> Iterator[None]:
    """A context in which a WseError on the placement that reads prompts names the options that it was requested with.

    >>> request = make_request(ServeRequest, prefill="own")
    >>> with prefill_errors(request):
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
    """Return the options of placement, without ``--``, that prompts have apart from decoding."""
    if request.prefilling.prefill_gpu is not None:
        return frozenset(("gpu", "gpus", "stack"))
    if request.prefilling.prefill_wafer is not None:
        return frozenset(("wafer", "wafers"))
    if request.prefilling.prefill_mesh is not None:
        return frozenset(("mesh",))
    return frozenset(("wafers",) if request.base.gpu is None else ("gpus",))
