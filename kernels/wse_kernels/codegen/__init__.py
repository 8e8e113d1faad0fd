"""Generation and compilation of kernels: loops over blocks and cores, LLVM instructions, and cached code."""
