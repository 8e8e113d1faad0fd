"""Calls of kernels: the steps of a phase, bound to kernels and to the words that leave a region."""
