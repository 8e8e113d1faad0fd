"""Products of tokens with the weight tile of a PE, quantised or not."""
