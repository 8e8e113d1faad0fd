"""Transfer kernels: messages between PEs, sums on the way, and copies between regions.

A message goes from PE ``source`` to PE ``target`` of a line (a row or column of PEs) over the links
between them. Its arrival code says what happens at the target (`wse_kernels.operands.arrivals`).
Messages are executed in their order, which is also the order of every sum.
"""
