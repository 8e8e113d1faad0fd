"""The share of a row, among neighbours in a column that divide what all of them would work out."""

from __future__ import annotations

from wse_kernels._jit import inline_function


@inline_function
def share_of_row(row, length, groups, n):
    """The first of n features that a row works on, and one past its last.

    The ``length`` rows are cut into ``groups``, group i from row i length // groups on; row s of a group of z has the
    features from s n // z on.
    """
    group = ((row + 1) * groups - 1) // length
    start, end = group * length // groups, (group + 1) * length // groups
    return (row - start) * n // (end - start), (row - start + 1) * n // (end - start)
