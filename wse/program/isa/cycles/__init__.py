"""Cycle-count formulas for kernels with several vector operations: attention and products."""
