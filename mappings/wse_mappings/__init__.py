"""Where work goes on a mesh and how words travel there; knows rectangles, lines and words, and no transformer."""
