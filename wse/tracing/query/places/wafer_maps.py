"""Maps of a wafer: SRAM by use, busy cycles and words of every PE, and the size of the mesh."""

from __future__ import annotations

from wse_traces.reader.read import Array, Trace
from wse_traces.schema import DIRECTIONS, USES


def mesh_of(trace: Trace) -> tuple[int, int]:
    """Return the number of rows and columns of the mesh that programs see.

    The mesh is smaller than the physical wafer if PEs are dead.
    """
    mesh = trace.header.options.get("mesh") if "defects" in trace.header.options else None
    if isinstance(mesh, list) and len(mesh) == 2 and all(isinstance(size, int) and size > 0 for size in mesh):
        return min(mesh[0], trace.header.rows), min(mesh[1], trace.header.cols)
    return trace.header.rows, trace.header.cols


def sram_bytes(trace: Trace, wafer: int) -> dict[str, Array]:
    """Return how many bytes of SRAM each PE of a wafer needs for each use, such as "weights".

    Returns:
        An array ``[row, col]`` for each use, with the name of the use as the key. The use ``free``
        is included. Empty if the bytes were not recorded.
    """
    return _planes(trace, "sram/bytes_per_pe", wafer, USES)


def busy_cycles(trace: Trace, wafer: int) -> Array | None:
    """Return the number of cycles over the run in which each PE computes, ``[row, col]``.

    The result is None if busy cycles were not recorded.
    """
    path = "pe/busy_cycles"
    return trace.column(path, wafer, wafer + 1)[0] if wafer < trace.rows(path) else None


def link_words(trace: Trace, wafer: int) -> dict[str, Array]:
    """Return the number of words that leave each PE of a wafer in each direction over the run.

    Returns:
        An array ``[row, col]`` for each direction, with the name of the direction as the key. Empty
        if words were not recorded.
    """
    return _planes(trace, "links/words", wafer, DIRECTIONS)


def _planes(trace: Trace, path: str, wafer: int, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the maps of one wafer in a dataset, such as its words on links in each direction.

    Args:
        trace: An open trace.
        path: Path of the dataset.
        wafer: Index of the wafer.
        names: Names of the maps in the dataset.

    Returns:
        Arrays ``[row, col]``, with the names of the maps as keys; empty if the wafer was not
        recorded.
    """
    if wafer >= trace.rows(path):
        return {}
    return dict(zip(names, trace.column(path, wafer, wafer + 1)[0], strict=True))
