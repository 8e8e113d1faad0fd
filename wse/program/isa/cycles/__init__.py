"""Formulas for the cycles of kernels with several vector operations: attention and products."""
