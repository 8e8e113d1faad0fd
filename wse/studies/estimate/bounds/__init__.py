"""Lower bounds of a token's time, and what lies between them and the estimate."""
