"""Traces: recording of runs and estimates, queries, printed views, exports, and the HTML page."""
