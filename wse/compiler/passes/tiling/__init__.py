"""The tiles of tensors on the PEs of a region."""
