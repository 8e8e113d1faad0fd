"""Readers of traffic traces: files with the arrival and the lengths of each request.

The format of a trace is recognised by its first line.
"""
