"""Rewrites of a layer's steps that take fewer cycles and change no result beyond rounding, one a file."""
