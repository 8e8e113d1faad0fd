"""``wse pattern``: patterns of a line side by side: cycles, bounds, links, colours, and wavelets in transit."""
