"""Tokenizers and chat templates of models, independent of file formats."""
