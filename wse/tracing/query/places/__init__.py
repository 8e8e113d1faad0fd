"""Views of places on the wafers in a trace: stages, PEs, buffers and links."""
