"""Oracles of elementwise operations: additions, copies, conversions and scaling."""

from __future__ import annotations

import numpy as np

from wse_kernels.oracle.memory import PICO


def residual_add(pe, x, addend, n):
    """Add sums to the residual stream of a layer in place: x[n] += addend[n].

    The addend is first rounded from the accumulator type to the activation type. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the residual stream [n] in the activation type, changed in place.
        addend: Address of the sums [n] in the accumulator type.
        n: Number of elements.
    """
    pe.write("act", x, pe.read("act", x, n) + pe.round_to("act", pe.read("acc", addend, n)))


def add(pe, x, addend, n):
    """Add one activation vector to another in place: x[n] += addend[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the vector [n], changed in place.
        addend: Address of the vector [n] to add.
        n: Number of elements.
    """
    pe.write("act", x, pe.read("act", x, n) + pe.read("act", addend, n))


def add_bias(pe, x, bias, M, n):
    """Add a bias to each token's sums in place: x[M, n] += bias[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the sums [M, n] in the accumulator type, changed in place.
        bias: Address of the bias [n] in the weight type.
        M, n: Numbers of tokens and features.
    """
    pe.write("acc", x, pe.read("acc", x, M, n) + pe.read("wgt", bias, n))


def scale(pe, x, n, factor_pico):
    """Multiply sums in the accumulator type by a constant in place: x[n] *= factor_pico * 1e-12.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the vector [n], changed in place.
        n: Number of elements.
        factor_pico: Factor in units of 1e-12.
    """
    pe.write("acc", x, pe.read("acc", x, n) * np.float32(factor_pico * PICO))


def store(pe, out, x, n):
    """Convert sums from the accumulator type to the activation type: out[n] = x[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out: Address of the results [n] in the activation type.
        x: Address of the vector [n] in the accumulator type.
        n: Number of elements.
    """
    pe.write("act", out, pe.read("acc", x, n))


def store_part(pe, out, x, M, n, stride):
    """Convert the first ``n`` sums of each row to the activation type: out[M, n] = x[M, :n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out: Address of the results [M, n] in the activation type.
        x: Address of the first row in the accumulator type.
        M, n: Number of rows, and number of elements to convert in each row.
        stride: Row stride of ``x``, in elements.
    """
    for m in range(M):
        pe.write("act", out + m * n, pe.read("acc", x + m * stride, n))


def clear(pe, out, n):
    """Set an activation vector to zero: out[n] = 0.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out: Address of the vector [n].
        n: Number of elements.
    """
    pe.write("act", out, np.zeros(n, np.float32))


def copy(pe, out, x, n):
    """Copy an activation vector: out[n] = x[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    pe.move("act", x, out, n)


def copy_statistics(pe, out, x, n):
    """Copy a float32 vector: out[n] = x[n].

    The elements are statistics, such as the maxima of a softmax. This NumPy reference for one PE is
    used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    pe.move("f32", x, out, n)


def add_statistics(pe, x, addend, n):
    """Add one float32 vector to another in place: x[n] += addend[n].

    The elements are statistics, such as the sums of a softmax. This NumPy reference for one PE is
    used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the vector [n], changed in place.
        addend: Address of the vector [n] to add.
        n: Number of elements.
    """
    pe.write("f32", x, pe.read("f32", x, n) + pe.read("f32", addend, n))


def store_statistics(pe, out, x, n):
    """Convert a float32 vector to the activation type: out[n] = x[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out: Address of the results [n] in the activation type.
        x: Address of the float32 vector [n].
        n: Number of elements.
    """
    pe.write("act", out, pe.read("f32", x, n))


def load_statistics(pe, out, x, n):
    """Convert an activation vector to float32: out[n] = x[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out: Address of the float32 results [n].
        x: Address of the vector [n] in the activation type.
        n: Number of elements.
    """
    pe.write("f32", out, pe.read("act", x, n))


def copy_weights(pe, out, x, n):
    """Copy a weight vector: out[n] = x[n].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    pe.move("wgt", x, out, n)


def soft_cap(pe, x, n, scale_pico, cap_pico):
    """Apply a smooth cap to values in place: x[n] = cap * tanh(scale * x[n] / cap).

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the vector [n] in the accumulator type, changed in place.
        n: Number of elements.
        scale_pico, cap_pico: Scale and cap in units of 1e-12.
    """
    scale, cap = np.float32(scale_pico * PICO), np.float32(cap_pico * PICO)
    pe.write("acc", x, np.tanh(pe.read("acc", x, n) * scale / cap) * cap)
