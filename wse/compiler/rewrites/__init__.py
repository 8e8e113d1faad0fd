"""Rewrites of a layer's steps, one per module. Rewrites save cycles and change only rounding."""
