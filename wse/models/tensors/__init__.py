"""Tensors of models: their names and shapes, the files that hold them, and how those store numbers."""
