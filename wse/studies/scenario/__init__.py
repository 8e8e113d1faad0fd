"""Scenarios: TOML files of settings and published figures, and what of them is consistent with each other."""
