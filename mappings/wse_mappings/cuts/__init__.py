"""Cuts: how extents, heads, experts and caches are partitioned across lines of PEs."""
