"""Kernels of RMS, L2 and layer normalisation.

One kernel sums over the features that a PE stores. After an all-reduce has added the sums of all
PEs, another kernel scales the features. ``eps_atto`` is epsilon in units of 1e-18.
"""
