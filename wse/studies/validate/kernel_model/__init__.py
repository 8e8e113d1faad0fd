"""Times and SRAM of inference kernels that are described by shards, steps and compute-engine costs."""
