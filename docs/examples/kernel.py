"""Run a kernel on the SRAM of two PEs, compare the result with numpy, and print its cycle count.

Each PE multiplies a vector by a matrix.

Example:
    python docs/examples/kernel.py
"""

from __future__ import annotations

import sys

import numpy as np

from wse.backends.execute.host_memory.arena import Arena
from wse.hardware.load import load_software, load_wafer
from wse.program.isa.instructions import kernel_named
from wse.program.isa.pe_costs import pe_costs
from wse_kernels.library import compiled_kernel

K, N = 16, 8
KERNEL = kernel_named("gemv")
ADDRESSES = {"x": 0, "w": K, "out": K + K * N}  # in float32 elements from the first byte
NUMBERS = {"M": 1, "K": K, "N": N, "k_stride": N, "n_stride": 1, "out_stride": N}

pes = Arena(1, 2, 0, 4 * (K + K * N + N))
rng = np.random.default_rng(1)
x, w = rng.normal(size=(1, 2, 1, K)).astype(np.float32), rng.normal(size=(1, 2, K, N)).astype(np.float32)

view = pes.view("float32")  # [block, element, lane]: neighbouring PEs of a row are the lanes of a block
for name, values in (("x", x), ("w", w)):
    values = values.reshape(2, -1)
    view[0, ADDRESSES[name] : ADDRESSES[name] + values.shape[1], :2] = values.T
operands = np.zeros(max(KERNEL.index.values()) + 1, np.int64)
operands[:3] = 0, pes.rows, pes.blocks_per_row
for name, value in (ADDRESSES | NUMBERS).items():
    operands[KERNEL.index[name]] = value
compiled_kernel("gemv").serial(view, view, view, operands)  # act, wgt and acc are all float32

out = pes.read("float32", ADDRESSES["out"], N)
error = np.abs(out - (x @ w)[:, :, 0]).max()
wafer = load_wafer("wse2")
cycles = KERNEL.cycles_of(
    operands.tolist(), pe_costs(wafer, load_software("tuned", wafer.generation), "float32", "float32")
)
sys.stdout.write(f"{KERNEL}({', '.join(KERNEL.index)}) on {pes.rows * pes.cols} PEs at once\n")
sys.stdout.write(f"largest difference from numpy {error:.1e}\n")
sys.stdout.write(f"{cycles:.0f} cycles on a PE of wse2 for {KERNEL.macs_of(operands.tolist())} multiply-adds\n")
