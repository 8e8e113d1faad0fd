"""One op kind a file: how it becomes steps, with activations replicated (decode, thin prefill) or on the mesh (MeshGEMM)."""
