"""Lowering of ops to symbolic steps. A module lists the kinds of ops that it lowers in ``OPS``."""
