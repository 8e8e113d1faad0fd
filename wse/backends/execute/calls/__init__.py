"""Kernel calls: the steps of a phase, bound to compiled kernels and to transfers."""
