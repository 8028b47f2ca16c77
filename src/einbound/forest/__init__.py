"""Many terms with shared values: what they share, where it lives, in which loops it is made."""
