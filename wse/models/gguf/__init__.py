"""Readers of GGUF files: metadata as a Hugging Face config, tensors, blocks and tokenizers."""
