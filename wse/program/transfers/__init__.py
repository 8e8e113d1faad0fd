"""Transfers: one class for each type of step that moves words; all three backends use it."""
