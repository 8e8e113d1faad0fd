"""Compute kernels: calculations of a PE on the bytes of its own SRAM, and storage of weights."""
