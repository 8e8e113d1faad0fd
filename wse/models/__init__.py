"""Model files in, one description and its arrays out."""
