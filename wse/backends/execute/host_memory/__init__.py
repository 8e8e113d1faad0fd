"""Memory of the host: the arena that holds the PEs' SRAM, and how much is needed and free."""
