"""Tensor contractions within bounds."""
