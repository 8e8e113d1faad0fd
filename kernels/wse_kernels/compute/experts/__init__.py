"""Kernels that apply the selected experts to each token.

A *pair* is a token and one of the experts selected for it. Every PE works through the list of the
pairs of its column. The list is float32 and begins with the number of pairs. Three values follow
for each pair: token, expert and routing weight. Experts are counted from the column's first one.
Kernels limit the indices in the list to the valid range, whatever the list contains.
"""
