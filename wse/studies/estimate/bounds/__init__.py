"""Lower bounds of the time of a token, and the causes of the gap between bound and estimate."""
