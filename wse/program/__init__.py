"""Compiled form of a model: the Program, which the compiler emits and all backends read."""
