"""Random tests of the fast timing model (fabric) against the cycle-by-cycle reference (wavelet)."""
