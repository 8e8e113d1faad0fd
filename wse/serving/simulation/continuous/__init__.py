"""Simulation of continuous batching, in which users join and leave between any two tokens."""
