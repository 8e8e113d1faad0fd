"""Choices that are fitted to a layout: attention columns, chunks, trees, codes to unpack."""
