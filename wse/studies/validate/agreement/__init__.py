"""Agreement of the fast fabric model with the wavelet simulator, on random cases."""
