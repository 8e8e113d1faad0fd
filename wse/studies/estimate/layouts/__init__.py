"""The layout that an estimate times: searches, the ranking of what they compiled, and room for users."""
