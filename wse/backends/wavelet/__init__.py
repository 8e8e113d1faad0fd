"""Cycle-by-cycle simulator of small regions: routers, colours, queues, and vector operations."""
