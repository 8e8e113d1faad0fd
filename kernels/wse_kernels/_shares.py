"""The share of a PE, among neighbours on a line that divide what all of them would compute or hold."""

from __future__ import annotations

from wse_kernels._jit import helper_function


@helper_function
def share_of_place(place, length, groups, n):
    """The first of n elements that a place works on, and one past its last.

    The ``length`` places are cut into ``groups``, group i from place i length // groups on; place s of a group of z has
    the elements from s n // z on.
    """
    group = ((place + 1) * groups - 1) // length
    start, end = group * length // groups, (group + 1) * length // groups
    return (place - start) * n // (end - start), (place - start + 1) * n // (end - start)


@helper_function
def group_of_column(col, columns, groups):
    """The group of a column, that group's first column, and its columns.

    Sizes of groups differ by at most one, and the larger ones come first.
    """
    size, larger = columns // groups, columns % groups
    group = col // (size + 1)
    if group >= larger:
        group = larger + (col - larger * (size + 1)) // size
    return group, group * size + min(group, larger), size + (1 if group < larger else 0)
