"""Models of serving: operating points, prices, queues and drafts, as functions of numbers.

Nothing here depends on a compiled Program. The only files that are read contain assumptions.
"""
