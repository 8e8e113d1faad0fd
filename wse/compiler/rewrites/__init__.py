"""Rewrites of a layer's steps, one per module. They save cycles and change only rounding."""
