"""Wafers, mappings and links side by side: one row for each combination, and the verdict on them."""
