"""Views of the places in a trace: PEs, their SRAM, links and wavelets."""
