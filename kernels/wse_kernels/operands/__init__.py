"""Operands of kernels that belong together, as named tuples that kernels and oracles take."""
