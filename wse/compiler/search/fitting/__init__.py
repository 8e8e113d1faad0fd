"""Choices that are fitted to a layout: columns of attention, chunks, codes unpacked at once."""
