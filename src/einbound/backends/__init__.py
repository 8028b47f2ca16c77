"""What instructions mean: on arrays, or on sizes alone."""
