"""One contraction, sum or permutation: layouts, ways and their workspace."""
