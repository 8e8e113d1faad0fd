"""The functions that decide claims, by topic."""
