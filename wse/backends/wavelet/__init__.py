"""The wavelet reference: a cycle-by-cycle model of small regions with routers, colours and queues."""
