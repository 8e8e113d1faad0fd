"""Tensors of models: names and shapes, readers of file formats, and quantised weights."""
