"""Search for the best layout, rewrites and chunk sizes, and remedies for models that do not fit."""
