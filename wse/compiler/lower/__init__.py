"""One op kind a file: how it becomes steps, with activations replicated or lying on the mesh."""
