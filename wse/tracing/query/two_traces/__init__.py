"""Two traces side by side: rows of a comparison, and what changed from one to the other."""
