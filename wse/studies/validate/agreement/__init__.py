"""Agreement of the fast fabric model with the wavelet reference, on random cases."""
