"""The wing that reads traces: queries, print-outs, exports and the page; it knows neither compiler nor Program."""
