"""Comparison of wafers and GPUs: speed per user against cost and energy of a token."""
