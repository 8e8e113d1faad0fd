"""Compute kernels: what a PE calculates from the bytes of its own SRAM, and how weights are stored there."""
