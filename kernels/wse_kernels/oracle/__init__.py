"""Oracles: every kernel a second time as a slow numpy function of the same name, on the bytes of single PEs.

``memory`` has the bytes, the other files contain the functions. An oracle knows no blocks and no lanes. The oracle of a
compute kernel is a function of one PE: ``oracle(pe, ctl, ...)`` with the kernel's operands by name, ``ctl`` where the
kernel has it; `wse_kernels.oracle.memory.Sram.run` calls it for the PEs of some rows. A transfer oracle takes what the
kernel takes, with memory ``uint8[rows, cols, bytes]``, the SRAM of each PE as it addresses it, and the name of an
element type for a view; blocks a row are ignored.

Rounding. Elements are widened to float32, which is exact. Every product and every sum is rounded to float32, to nearest
even, and a stored result once more to the element type that holds it. A sum in an accumulator is therefore, term by
term in ascending order, rounded to float32 and then to the accumulator type: for half, two roundings in a row.
Statistics stay float32.
"""
