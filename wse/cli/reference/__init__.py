"""Generator of the pages in docs/reference, from options, results and signatures."""
