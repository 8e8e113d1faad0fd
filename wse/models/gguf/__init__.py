"""GGUF files: their blocks, their metadata as a config, their tensors under the names that the families know."""
