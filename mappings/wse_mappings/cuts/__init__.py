"""Cuts: how extents, heads, experts and caches are divided over lines of PEs."""
