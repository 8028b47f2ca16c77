"""Plans as records, and the planners that choose them; no arrays, no lifetimes."""
