"""Storage of weights: quantisation, random weights, and shards of tensors in the SRAM of PEs."""
