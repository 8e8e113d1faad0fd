"""Timing kernel: a cycle-by-cycle simulation of routers, queues and vector operations."""
