"""Trials: layouts compiled for a reduced model, to learn whether they fit and how fast they are."""
