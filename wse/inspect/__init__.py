"""Views of traces: queries, print-outs, exports and the page; none of it imports the compiler or the Program."""
