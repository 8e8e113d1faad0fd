"""Machines, settings, patterns and traces side by side."""
