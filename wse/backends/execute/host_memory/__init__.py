"""Host memory: the arena that contains the PEs' SRAM, and how much memory is needed and free."""
