"""Compiled kernels of the emulator, one for each instruction of the PEs.

``oracle`` has a plain reference implementation of each.

All compute kernels have the same calling convention: ``kernel(act, wgt, acc, f32, raw, ctl, a)``. A
kernel takes only those of the views and ``ctl`` that it uses.

``act, wgt, acc, f32, raw``
    Views ``[block, address, lane]`` of the SRAM of one region, in the element types of activations,
    weights, accumulators, float32 and bytes. A block is a group of up to 128 neighbouring PEs of
    one mesh row, and a lane is one of these PEs. The same address of neighbouring PEs is
    contiguous. An element of ``s`` bytes at byte address ``b`` has index ``b // s``.
``ctl``
    int32 ``[row, word]``: the counters that the PEs of a row keep about tokens and cache slots.
    Words: 0 position of the row's first token, 1 tokens on the row, 2 first token to append,
    3 tokens to append, 4 slot of the first, 5 slot passed up or -1, 6 slot received into or -1,
    7 slot of the oldest entry, 8 + slot: position of the entry in that slot, or -1 if it is empty.
``a``
    int64 operands: 0 first row, 1 rows, 2 blocks per row, then the named operands of the kernel.
    Addresses count elements of their view.

A compute kernel is written as a function of one block whose operands are parameters
(`wse_kernels.codegen.blocks`). Operands that belong together are a named tuple
(`wse_kernels.operands.group`): ``at`` has addresses, ``shape`` has sizes. In docstrings, ``x[M,
K]`` is the array of M K elements at address ``x``, and a formula such as ``out[M, N] = x[M, K] @
w[K, N]`` says what a kernel computes from these arrays. Operands that end in ``_pico`` are in units
of 1e-12, and ``eps_atto`` is in units of 1e-18.

Sums are computed in ascending order of the contracted index. Each product is rounded to float32,
and each sum to float32 and then to the accumulator type.
"""
