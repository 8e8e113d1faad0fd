"""Oracles: a slow numpy reference of every kernel, by the same name, on the bytes of single PEs.

``memory`` gives access to the bytes of PEs, and ``quantised_weights`` unpacks codes. ``transfers``
has the oracles of all transfer kernels. The other files are named like those of the kernels.
Oracles do not divide PEs into blocks and lanes.

- The oracle of a compute kernel is a function of one PE: ``oracle(pe, ctl, ...)``, with the
  operands of the kernel, in the same named tuples, and ``ctl`` only if the kernel has it.
- The oracle of a transfer kernel takes what the kernel takes. In place of a view it takes memory
  ``uint8[rows, cols, bytes]``, the SRAM of each PE in its own addresses, and the name of an element
  type. The operand for blocks per row is ignored.

Rounding. Elements are widened to float32, which is exact. Every product and every sum is rounded to
float32, to nearest even, and a stored result once more to its element type. A sum in an accumulator
is therefore rounded term by term, in ascending order, to float32 and then to the accumulator type.
In half precision, each of these sums is thus rounded twice. Statistics stay float32.
"""
