"""The prefill machine, if it is separate from the decode machine.

Error messages about this machine name its options, such as ``--prefill-wafers``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from wse.errors import BadInput, WseError
from wse.hardware.spec import parse_mesh
from wse.serving.prices import prices_of_gpu, prices_without_gpus
from wse.studies.estimate.gpus.check_machine import check_machine
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, prepare_gpu_estimate
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.serve_sim.request import ServeRequest

Placement = PreparedEstimate | PreparedGpuEstimate
"""A validated estimate request for wafers or GPUs."""

_OPTION: Final = re.compile(r"--(wafers?|gpus?|stack|mesh)(?![\w-])")


def prepare_machine(placement: EstimateRequest) -> Placement:
    """Validate a request for a wafer or GPU machine, and load the files that it names."""
    check_machine(placement)
    return prepare_estimate(placement) if placement.gpu is None else prepare_gpu_estimate(placement)


def _other_machine(request: ServeRequest, placement: EstimateRequest) -> EstimateRequest:
    """Return a request for a prefill machine of a different type than the decode machine.

    If wafers decode, GPUs read the prompts. If GPUs decode, wafers read the prompts.

    Args:
        request: The serving request.
        placement: Request for the decode machine, which provides the model and lengths.
    """
    prefilling = request.prefilling
    common_request = make_request(
        EstimateRequest,
        model=placement.model,
        dtype=placement.types.dtype,
        prompt_len=placement.workload.prompt_len,
        new_tokens=placement.workload.new_tokens,
        economics=placement.costs.economics,
    )
    if prefilling.prefill_gpu is not None:
        price = prices_of_gpu(request.base.costs.price, prefilling.prefill_gpu)
        gpu, gpus, stack = prefilling.prefill_gpu, prefilling.prefill_gpus, prefilling.prefill_stack
        return replace_options(common_request, gpu=gpu, gpus=gpus, stack=stack, price=price)
    assert prefilling.prefill_wafer is not None
    assert request.base.gpu is not None  # otherwise, `check_options` has refused the request
    price = prices_without_gpus(request.base.costs.price, [request.base.gpu])
    return replace_options(
        common_request, wafer=prefilling.prefill_wafer, wafers=prefilling.prefill_wafers, price=price
    )


def prefill_machine(request: ServeRequest, placement: EstimateRequest) -> Placement:
    """Validate and load the separate prefill machine.

    There are three cases:

    1. A different type of machine: GPUs if wafers decode, or wafers if GPUs decode.
    2. Separate machines of the same type.
    3. A separate mesh next to or below the decode mesh, on the same wafers.

    Args:
        request: The serving request.
        placement: Request for the decode machine.

    Raises:
        BadInput: The options contradict each other, or the two meshes do not both fit on a wafer.
    """
    prefilling = request.prefilling
    placement = replace_options(placement, draft=None, draft_model=None, draft_place=None, users=None, replicas=1)
    if prefilling.prefill_gpu is not None or prefilling.prefill_wafer is not None:
        return prepare_machine(_other_machine(request, placement))  # 1
    if placement.gpu is not None:  # 2
        return prepare_gpu_estimate(
            replace_options(placement, gpus=prefilling.prefill_gpus or placement.gpu_serving.gpus)
        )
    if prefilling.prefill_mesh is None:
        return prepare_estimate(replace(placement, wafers=prefilling.prefill_wafers or placement.wafers))
    if request.base.machine.mesh is None or prefilling.prefill_wafers is not None:  # 3
        raise BadInput(
            f"--prefill-mesh {prefilling.prefill_mesh}: is next to the --mesh that decodes, on the same wafers; give "
            "--mesh, and leave out --prefill-wafers"
        )
    prepared_estimate = prepare_estimate(replace_options(placement, mesh=prefilling.prefill_mesh))
    sizes = [parse_mesh(mesh) for mesh in (request.base.machine.mesh, prefilling.prefill_mesh)]
    (rows, cols), (more_rows, more_cols) = sizes
    wafer = prepared_estimate.whole
    is_below = rows + more_rows <= wafer.mesh_rows and max(cols, more_cols) <= wafer.mesh_cols
    is_beside = cols + more_cols <= wafer.mesh_cols and max(rows, more_rows) <= wafer.mesh_rows
    if not (is_below or is_beside):
        raise BadInput(
            f"--mesh {request.base.machine.mesh} and --prefill-mesh {prefilling.prefill_mesh}: a wafer has "
            f"{wafer.mesh_rows}x{wafer.mesh_cols} PEs, where they do not fit beside each other; give smaller ones"
        )
    return prepared_estimate


@contextmanager
def prefill_errors(request: ServeRequest) -> Iterator[None]:
    """Rewrite messages of errors in this context to name the options of the prefill machine.

    >>> request = make_request(ServeRequest, prefill="own")
    >>> with prefill_errors(request):
    ...     raise WseError("--wafers 99: choose at most 5, or a larger --mesh")
    Traceback (most recent call last):
    wse.errors.WseError: --prefill-wafers 99: choose at most 5, or a larger --mesh
    """
    own_names = own_options(request)
    try:
        yield
    except WseError as error:
        text = _OPTION.sub(lambda found: f"--prefill-{found[1]}" if found[1] in own_names else found[0], str(error))
        error.args = (text,)
        raise


def own_options(request: ServeRequest) -> frozenset[str]:
    """Return the options in which a separate prefill machine differs from the decode machine.

    All other options are the same for both machines.

    Returns:
        Option names without the prefix ``--prefill-``, such as ``wafers`` for ``--prefill-wafers``.
    """
    if request.prefilling.prefill_gpu is not None:
        return frozenset(("gpu", "gpus", "stack"))
    if request.prefilling.prefill_wafer is not None:
        return frozenset(("wafer", "wafers"))
    if request.prefilling.prefill_mesh is not None:
        return frozenset(("mesh",))
    return frozenset(("wafers",) if request.base.gpu is None else ("gpus",))
