"""Pre-allocation check that this computer has enough memory for a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wse.backends.execute.host_memory.required_memory import free_bytes, required_bytes
from wse.bisection import largest_passing
from wse.compiler.search.remedies import narrower_types
from wse.errors import BadInput, DoesNotFit, InsufficientMemory
from wse.models.catalogue import CONFIGURATIONS
from wse.models.load import load_model
from wse.models.tensors.model_tensors import parameter_count, stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.reports.number_text import count, in_bytes
from wse.studies.compile.choose import compile_fastest
from wse.studies.options.option import replace_options
from wse.studies.run.prepare import PreparedRun, prepare


def check_memory(prepared_run: PreparedRun, program: Program) -> None:
    """Raise an error if the emulation of a run needs more memory than this computer has free.

    Raises:
        InsufficientMemory: The message states the required and available bytes, and similar
            settings that would fit. Each suggested setting has been compiled to verify this.
    """
    run_bytes, free = required_bytes(program), free_bytes()
    if free is None or run_bytes <= free:
        return
    pes = sum(stage.rect.rows * stage.cols for stage in program.stages)
    remedies = list(_remedies(prepared_run, free))
    remedy_text = (
        f"any of these would fit: {', '.join(remedies)}; or" if remedies else "nothing that was tried would fit:"
    )
    raise InsufficientMemory(
        f"{program.model_name} as {program.weight_type}: the SRAM of {count(pes)} emulated PEs needs "
        f"{in_bytes(run_bytes)} of this machine's memory, but {in_bytes(free)} are free; {remedy_text} "
        "free some memory, or use a machine with more"
    )


def _remedies(prepared_run: PreparedRun, free_memory: int) -> Iterator[str]:
    """Yield option changes that make a run fit into the free memory, as command-line text.

    Four changes are tried one by one: the default mesh, narrower weight types, fewer new tokens
    and, if weights are random, a smaller model. A change is yielded only if it is sufficient; of
    several sufficient values of an option, the one closest to the request is yielded.
    """
    request, options = prepared_run.request, prepared_run.options

    def fits_with(**changes: Any) -> bool:
        """Return whether the request fits into the free memory after the given option changes."""
        try:
            changed_run = prepare(replace_options(request, **changes))
            return required_bytes(compile_fastest(changed_run).program) <= free_memory
        except (BadInput, DoesNotFit):
            return False

    if request.machine.mesh is not None and fits_with(mesh=None):
        yield "no --mesh"
    for dtype in narrower_types(options.dtype):
        other_sums = request.types.accumulate is not None and dtype != "float16"
        if fits_with(dtype=dtype, **({"accumulate": None} if other_sums else {})):
            yield f"--dtype {dtype}" + (" --accumulate float32" if other_sums else "")
            break
    prompt = max(options.prompt_tokens)
    new = largest_passing(1, prepared_run.new_tokens, lambda n: fits_with(new_tokens=n, context=prompt + n))
    if new is not None:
        yield f"--new-tokens {new}" + ("" if request.context is None else f" --context {prompt + new}")
    if request.weights is not None:
        yield from _smaller_model(prepared_run, free_memory, fits_with)


def _smaller_model(prepared_run: PreparedRun, free_memory: int, fits_with: Any) -> Iterator[str]:
    """Yield a suggestion to use the largest bundled model that fits into memory.

    Only models with fewer parameters than the requested model are tried. If none fits, nothing is
    yielded.

    Args:
        prepared_run: The run that needs too much memory.
        free_memory: Free memory of this computer in bytes.
        fits_with: Function that compiles the request with changed options and returns whether it
            fits.
    """
    options, model_parameters = prepared_run.options, parameter_count(prepared_run.spec)
    specs = {name: load_model(name).spec for name in CONFIGURATIONS}
    sizes = {name: parameter_count(spec) for name, spec in specs.items()}
    for name in sorted(specs, key=lambda name: -sizes[name]):
        dtype = prepared_run.request.types.dtype or specs[name].weight_type
        bytes_ = stored_bytes(specs[name], dtype, ELEMENT_BYTES[options.activation_type])
        if sizes[name] < model_parameters and bytes_ < free_memory and fits_with(model=name):
            yield f"the model {name}"
            return
