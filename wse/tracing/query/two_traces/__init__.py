"""Comparison of two traces: a row of results for each, and the differences between them."""
