"""What every kernel computes, said slowly: one numpy function of the same name on the bytes of single PEs.

``memory`` has the bytes, the other files hold the functions. An oracle knows no blocks and no lanes. Memory is
``uint8[rows, cols, bytes]``, the SRAM of each PE as it addresses it, and element types have names. ``ctl`` and the
operands ``a`` are those of the kernel, except that blocks a row are ignored. Compute oracles take ``(pes, ctl, a)``;
transfer oracles take memory and an element type where the kernel takes a view.

Rounding. Elements are widened to float32, which is exact. Every product and every sum is rounded to float32, to nearest
even, and a stored result once more to the element type that holds it. A sum in an accumulator is therefore, term by
term in ascending order, rounded to float32 and then to the accumulator type: for half, two roundings in a row.
Statistics stay float32.
"""
