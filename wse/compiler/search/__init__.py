"""Layouts that are tried, on a reduced model and whole, and remedies for what does not fit."""
