"""The mesh of PEs: rectangles on it, rings folded onto it, and its dead PEs and links."""
