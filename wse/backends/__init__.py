"""Backends of a Program: computation of values, fast timing, and cycle-by-cycle simulation."""
