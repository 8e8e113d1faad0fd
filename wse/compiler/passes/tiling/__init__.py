"""Tiles: the parts of tensors that the PEs of a region store."""
