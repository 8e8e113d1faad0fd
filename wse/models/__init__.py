"""Models: from the files of a model to its specification, its tensors and its tokenizer."""
