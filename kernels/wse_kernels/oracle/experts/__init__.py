"""Oracles of kernels that process tokens by the experts that were selected for them."""
