"""Tokenizers and chat templates of models, whatever file they came from."""
