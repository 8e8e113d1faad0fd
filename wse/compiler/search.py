"""What the compiler chooses by trying: regions, the prefill product, and how much is processed at once.

Every trial is a full compilation, so what is chosen fits. A cost function, given by the caller, decides between
those that do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from wse.compiler.allocate import element_bytes, reserved_bytes
from wse.compiler.options import (
    DECODE,
    MESH_GEMM_OWN,
    PREFILL_PRODUCTS,
    REFUSE,
    THIN_GEMM,
    Choice,
    Options,
    check_types,
    needs_thin,
)
from wse.compiler.partition import partition
from wse.compiler.pipeline import compile_choice
from wse.compiler.shard import shard
from wse.compiler.state import State
from wse.errors import BadInput, BadMesh, DoesNotFit, UnknownName
from wse.graph import op_graph
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program import Program
from wse_mappings.placement import even_bands
from wse_mappings.recipe import recipes
from wse_mappings.split import ceil_div

Cost = Callable[[Program], float]
Layout = tuple[int, int]
"""Bands of a wafer's mesh, and the most regions in one."""

SMALLEST_HEAD_CHUNK = 16  # vocabulary entries a column; fewer would only add launches
MOST_STAGES = 16  # stages on a wafer that are tried when the region is not given


def compile_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, cost: Cost | None = None
) -> Program:
    """The best Program that fits, by ``cost`` (lower is better); without one, the first that fits.

    Raises:
        UnknownName: there is no such mapping, element type, or product for prefill.
        BadInput: types that do not go together, or a product that is not known for what the model has.
        BadMesh: the region is larger than the mesh, or not the square that the product asked for needs, or more stages
            are asked for than there are layers.
        DoesNotFit: nothing that was tried fits; the error is that of the smallest demand.
    """
    _check_names(options)
    _check_mesh(spec, wafer, options)
    programs: list[Program] = []
    failures: list[DoesNotFit] = []
    for layout in _layouts(spec, wafer, options):
        for prefill in _prefills(spec, wafer, options, layout):
            try:
                programs.append(_largest_chunks(spec, wafer, software, options, layout, prefill))
            except DoesNotFit as error:
                failures.append(error)
                continue
            if cost is None:
                return programs[0]
    what = needs_thin(spec, options)
    if not programs and not failures and what:
        message = f"{options.prefill}: not known for {what}, which {spec.name} has: prefill by {THIN_GEMM}"
        raise BadInput(message)
    if not programs and not failures:
        message = (
            f"{options.prefill}: needs a square region, and those of {wafer.mesh_rows}x{wafer.mesh_cols} PEs are not: "
            f"choose a square --region, or prefill by {THIN_GEMM}"
        )
        raise BadMesh(message)
    if not programs:
        raise min(failures, key=lambda error: getattr(error, "needed", 0))
    return programs[0] if cost is None else min(programs, key=cost)


def fits(spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options) -> bool:
    """Whether any choice fits: the least demanding one of every region count is tried."""
    _check_names(options)
    try:
        _check_mesh(spec, wafer, options)
    except BadMesh:
        return False
    for bands, per_band in _layouts(spec, wafer, options):
        products = _prefills(spec, wafer, options, (bands, per_band))
        if not products:
            continue
        choice = Choice(
            bands=bands, per_band=per_band, prefill=products[-1], prefill_chunk=1, head_chunk=SMALLEST_HEAD_CHUNK
        )
        least = replace(options, prompt_tokens=(1,) * options.batch, capacity=REFUSE)
        if not _weights_fit(spec, wafer, software, least, choice):
            continue
        try:
            compile_choice(spec, wafer, software, least, choice)
        except DoesNotFit:
            continue
        return True
    return False


def _weights_fit(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> bool:
    """Whether code and padded weights alone fit: a tenth of the work of a compilation."""
    graph = op_graph(spec, options.scope)
    state = State(spec=spec, wafer=wafer, software=software, options=options, choice=choice, graph=graph)
    state = shard(partition(state))
    held = Counter[int]()
    for tile in state.tiles:
        held[tile.buffer.stage] += tile.buffer.elements * element_bytes(state, tile.buffer.view)
    return reserved_bytes(state) + max(held.values()) <= wafer.sram_bytes_per_pe


def _check_names(options: Options) -> None:
    if options.mapping not in recipes():
        raise UnknownName("mapping", options.mapping, recipes())
    if options.prefill not in (None, *PREFILL_PRODUCTS):
        raise UnknownName("product for prefill", str(options.prefill), PREFILL_PRODUCTS)
    check_types(options.dtype, options.activations)


def _check_mesh(spec: ModelSpec, wafer: WaferSpec, options: Options) -> None:
    if options.region is not None:
        rows, cols = options.region
        if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
            message = (
                f"--region {rows}x{cols}: larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs; "
                f"choose at most {wafer.mesh_rows}x{wafer.mesh_cols}"
            )
            raise BadMesh(message)
    if options.wafers > spec.layer_count:
        message = (
            f"--wafers {options.wafers}: {spec.name} has {spec.layer_count} layers and a wafer holds at least one; "
            f"choose at most {spec.layer_count}"
        )
        raise BadMesh(message)


def _layouts(spec: ModelSpec, wafer: WaferSpec, options: Options) -> Iterator[Layout]:
    """Layouts of each wafer to try, the fewest regions first."""
    if recipes()[options.mapping].regions == "one":
        yield 1, 1
        return
    per_wafer = spec.layer_count // options.wafers
    if options.region is not None:
        rows, cols = options.region
        down, across = wafer.mesh_rows // rows, wafer.mesh_cols // cols
        most = min(per_wafer, down * across)
        yield from ((ceil_div(count, across), across) for count in range(min(2, most), most + 1))
        return
    most = min(per_wafer, wafer.mesh_rows * wafer.mesh_cols, MOST_STAGES)
    counts = range(min(2, most), most + 1)
    yield from dict.fromkeys(even_bands(wafer.mesh_rows, wafer.mesh_cols, count) for count in counts)


def _prefills(spec: ModelSpec, wafer: WaferSpec, options: Options, layout: Layout) -> tuple[str, ...]:
    """The products to try on regions of that shape, the least demanding last; none where only another was asked for.

    Weights of prefill's own are tried unasked where they take the place of decode's, not beside them.
    """
    rows, cols = _region(wafer, options, layout)
    unasked = [p for p in PREFILL_PRODUCTS if p != MESH_GEMM_OWN or DECODE not in options.phases]
    wanted = unasked if options.prefill is None else [options.prefill]
    squares = rows == cols and not needs_thin(spec, options)
    return tuple(product for product in wanted if squares or product == THIN_GEMM)


def _region(wafer: WaferSpec, options: Options, layout: Layout) -> tuple[int, int]:
    """Rows and columns of a region, the columns where all of a band have as many."""
    return options.region or (wafer.mesh_rows // layout[0], wafer.mesh_cols // layout[1])


def _largest_chunks(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, layout: Layout, prefill: str
) -> Program:
    """The fewest and largest chunks that fit, first of the head's vocabulary and then of the prompt."""
    rows, cols = _region(wafer, options, layout)
    step = 1 if prefill == THIN_GEMM else rows
    bands, per_band = layout

    def attempt(head_chunk: int, prefill_chunk: int) -> Program:
        choice = Choice(
            bands=bands, per_band=per_band, prefill=prefill, prefill_chunk=prefill_chunk, head_chunk=head_chunk
        )
        return compile_choice(spec, wafer, software, options, choice)

    longest = max(options.prompt_tokens)
    smallest = min(step, longest)
    head = _first_that_fits(
        lambda n: attempt(n, smallest), _halvings(ceil_div(spec.vocab_size, cols), SMALLEST_HEAD_CHUNK)
    )[0]
    return _first_that_fits(lambda n: attempt(head, n), _chunks(longest, step))[1]


def _first_that_fits(attempt: Callable[[int], Program], sizes: list[int]) -> tuple[int, Program]:
    for size in sizes[:-1]:
        try:
            return size, attempt(size)
        except DoesNotFit:
            continue
    return sizes[-1], attempt(sizes[-1])


def _halvings(largest: int, smallest: int) -> list[int]:
    sizes = [largest]
    while sizes[-1] > smallest:
        sizes.append(max(smallest, ceil_div(sizes[-1], 2)))
    return sizes


def _chunks(prompt_tokens: int, step: int) -> list[int]:
    """Chunk sizes to try: the whole prompt, then fewer and fewer multiples of ``step``."""
    sizes = [prompt_tokens]
    for size in _halvings(ceil_div(prompt_tokens, step), 1):
        if size * step < sizes[-1]:
            sizes.append(size * step)
    return sizes
