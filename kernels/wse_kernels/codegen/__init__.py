"""Generation and compilation of kernels: loops, LLVM instructions, and a cache of compiled code."""
