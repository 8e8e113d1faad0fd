"""The wavelet reference: a cycle-by-cycle model of routers, colours and queues in small regions."""
