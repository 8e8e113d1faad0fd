"""Division of work or data among neighbouring PEs."""

from __future__ import annotations

from wse_kernels.codegen.jit import helper_function


@helper_function
def slice_of_place(place, length, groups, n):
    """Divide the work of a group of PEs, and return the range of elements that one PE computes.

    The ``length`` PEs of a row or column form ``groups`` groups of neighbours. Each group processes
    ``n`` elements, which its PEs divide into slices of nearly equal size. Group i starts at PE i *
    length // groups. In a group of z PEs, PE s starts at element s * n // z.

    Args:
        place: Index of the PE in the row or column.
        length: Number of PEs in the row or column.
        groups: Number of groups.
        n: Number of elements to divide within each group.

    Returns:
        Index of the first element, and the index after the last element.
    """
    group = ((place + 1) * groups - 1) // length
    start, end = group * length // groups, (group + 1) * length // groups
    return (place - start) * n // (end - start), (place - start + 1) * n // (end - start)


@helper_function
def group_of_column(col, columns, groups):
    """Divide columns into groups of neighbours, and return the group of one column.

    Group sizes differ by at most one, and the larger groups come first.

    Args:
        col: Index of the column.
        columns: Number of columns.
        groups: Number of groups.

    Returns:
        Index of the group, index of its first column, and its number of columns.
    """
    size, larger = columns // groups, columns % groups
    group = col // (size + 1)
    if group >= larger:
        group = larger + (col - larger * (size + 1)) // size
    return group, group * size + min(group, larger), size + (1 if group < larger else 0)


@helper_function
def slice_of_index(index, size, extent):
    """Return the range of elements in one of several slices of equal size.

    Args:
        index: Index of the slice.
        size: Number of elements per slice. The last nonempty slice may be shorter, and slices after
            it are empty.
        extent: Total number of elements in all slices.

    Returns:
        Index of the first element, and the index after the last element.
    """
    first = min(index * size, extent)
    return first, min(first + size, extent)
