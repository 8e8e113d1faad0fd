"""What a trace has of places: PEs, their SRAM, links and wavelets."""
