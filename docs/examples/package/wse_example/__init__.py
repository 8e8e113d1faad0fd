"""A pattern, a mapping strategy and a model family for wse."""
