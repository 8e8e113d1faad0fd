"""Transfer kernels: messages between PEs, and sums that are made on the way."""
