"""Cycles and link loads of a Program, for the whole mesh, without weights: the fast timing reader."""
