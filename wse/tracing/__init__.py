"""Traces: recording of runs and estimates, queries, print-outs, exports, and the HTML page."""
