"""Program, weights and tokens to logits: real arithmetic on the bytes of the PEs' SRAM. Knows no clock."""
