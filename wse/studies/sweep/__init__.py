"""``wse sweep``: estimates for every combination of settings, written to one table."""
