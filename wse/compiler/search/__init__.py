"""Layouts that are tried, in small and whole, and remedies for what does not fit."""
