"""``wse sweep``: estimates for every combination of some settings, written to one table."""
