"""HTML page of a comparison: its data, skeleton, style and script."""
