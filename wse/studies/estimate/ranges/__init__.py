"""Ranges of the headline figures of an estimate, from uncertain constants and the model error."""
