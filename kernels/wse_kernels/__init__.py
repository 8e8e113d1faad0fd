"""Every compiled function of the emulator, one instruction of the PEs each, and its plain twin in ``oracle``.

The calling convention is one for all compute kernels: ``kernel(act, wgt, acc, f32, raw, ctl, a)``, without the
views and ``ctl`` that the kernel does not touch.

``act, wgt, acc, f32, raw``
    Views ``[block, address, lane]`` of one region's SRAM in the element types of activations, weights,
    accumulators, float32 and bytes. A block holds up to 128 PEs of one mesh row, and the same address of
    neighbouring PEs is contiguous. An element of ``s`` bytes at byte address ``b`` is index ``b // s``.
``ctl``
    int32 ``[row, word]``: the counters that the PEs of a row keep about tokens and cache slots.
    Words: 0 position of the row's first token, 1 tokens on the row, 2 first token to append,
    3 tokens to append, 4 slot of the first, 5 slot passed up or -1, 6 slot received into or -1,
    7 slot of the oldest entry, 8 + slot: the position held by that slot, -1 when empty.
``a``
    int64 operands: 0 first row, 1 rows, 2 blocks a row, then those that each kernel names, addresses
    counted in elements of their view.

A compute kernel is written as a function of one block that takes its operands by name (`wse_kernels._blocks`). In
docstrings ``x[M, K]`` is the array of M K elements from address ``x`` on; ``factor`` is the operand ``factor_pico`` in
units of 1e-12, ``eps`` is ``eps_atto`` in units of 1e-18.

Sums run in ascending order of the contracted index, one multiply rounded to float32 and one add per term,
the add rounded to the accumulator's type.
"""
