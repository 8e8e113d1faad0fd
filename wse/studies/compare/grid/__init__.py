"""Comparison of wafers, mappings and links: a row for each combination, and the verdict."""
