"""The rows of comparisons that keep targets, for one or several lengths of requests, in one order."""
