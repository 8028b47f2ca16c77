"""Expressions: text and labels in, networks of numbered indices out."""
