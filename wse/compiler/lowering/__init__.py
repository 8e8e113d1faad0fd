"""Lowering of ops to steps, replicated or on the mesh; ``OPS`` of a module has the lowerings of its kinds of op."""
