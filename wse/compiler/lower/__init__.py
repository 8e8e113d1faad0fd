"""Lowering of ops to steps, a kind of op a file, with activations replicated or lying on the mesh."""
