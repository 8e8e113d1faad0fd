"""The page of a simulation of serving: its data, skeleton, style and script."""
