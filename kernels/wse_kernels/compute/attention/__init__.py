"""Kernels of attention over the KV cache entries that a PE stores.

M is the number of tokens. There are Hk KV heads and H query heads, where H is a multiple of Hk. A
PE stores T cache entries of its row, with F features of each head of its column.

Caches are ``[slot, Hk, F]``. The T entries of a row are read starting with the oldest entry
(``ctl`` word 7), wrapping around the end of the cache.
"""
