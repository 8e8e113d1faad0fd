"""Choice of the layout that an estimate times: searches, ranking, and room for users."""
