"""The cycle-by-cycle reference for small regions: routers, colours, queues, back-pressure, vector operations."""
