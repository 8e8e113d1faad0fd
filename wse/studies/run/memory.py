"""Refusal of a run that this machine has no memory for, before anything of it is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wse.backends.execute.free_memory import free_bytes
from wse.backends.execute.required_memory import required_bytes
from wse.compiler.search.remedies import largest_good, narrower_types
from wse.errors import BadInput, DoesNotFit, InsufficientMemory
from wse.models.catalogue import CONFIGURATIONS
from wse.models.load import load_model
from wse.models.tensors.model_tensors import parameter_count, stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.reports.terminal import count, in_bytes
from wse.studies.compile.choose import compile_fastest
from wse.studies.options.option import replace_options
from wse.studies.run.prepare import PreparedRun, prepare


def check_memory(prepared: PreparedRun, program: Program) -> None:
    """Refuse a run that takes more memory of the host than is free.

    Raises:
        InsufficientMemory: with the bytes, and the nearest settings that fit, each compiled before it is named.
    """
    needed, free = required_bytes(program), free_bytes()
    if free is None or needed <= free:
        return
    pes = sum(stage.rect.rows * stage.cols for stage in program.stages)
    remedies = list(_remedies(prepared, free))
    tried = f"any of these would fit: {', '.join(remedies)}; or" if remedies else "nothing that was tried would fit:"
    message = (
        f"{program.model_name} as {program.weight_type}: the SRAM of {count(pes)} emulated PEs takes "
        f"{in_bytes(needed)} of this machine's memory, of which {in_bytes(free)} are free; {tried} free some memory, "
        "or take a machine with more"
    )
    raise InsufficientMemory(message)


def _remedies(prepared: PreparedRun, free: int) -> Iterator[str]:
    """Settings that fit into so many bytes, the nearest of each kind."""
    request, options = prepared.request, prepared.options

    def good(**changes: Any) -> bool:
        """Return whether the request with some options changed fits."""
        try:
            other = prepare(replace_options(request, **changes))
            return required_bytes(compile_fastest(other).program) <= free
        except (BadInput, DoesNotFit):
            return False

    if request.machine.mesh is not None and good(mesh=None):
        yield "no --mesh"
    for dtype in narrower_types(options.dtype):
        other_sums = request.types.accumulate is not None and dtype != "float16"
        if good(dtype=dtype, **({"accumulate": None} if other_sums else {})):
            yield f"--dtype {dtype}" + (" --accumulate float32" if other_sums else "")
            break
    prompt = max(options.prompt_tokens)
    new = largest_good(1, prepared.new_tokens, lambda n: good(new_tokens=n, context=prompt + n))
    if new is not None:
        yield f"--new-tokens {new}" + ("" if request.context is None else f" --context {prompt + new}")
    if request.weights is not None:
        yield from _smaller_model(prepared, free, good)


def _smaller_model(prepared: PreparedRun, free: int, good: Any) -> Iterator[str]:
    """Yield the largest configuration below the model's own size that fits with the same options."""
    options, most = prepared.options, parameter_count(prepared.spec)
    specs = {name: load_model(name).spec for name in CONFIGURATIONS}
    sizes = {name: parameter_count(spec) for name, spec in specs.items()}
    for name in sorted(specs, key=lambda name: -sizes[name]):
        dtype = prepared.request.types.dtype or specs[name].weight_type
        bytes_ = stored_bytes(specs[name], dtype, ELEMENT_BYTES[options.activation_type])
        if sizes[name] < most and bytes_ < free and good(model=name):
            yield f"the model {name}"
            return
