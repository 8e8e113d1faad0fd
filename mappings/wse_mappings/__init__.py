"""Mappings: places of work on a mesh and ways of words there; knows rectangles, lines and words, and no transformer."""
