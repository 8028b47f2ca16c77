"""Kernels made real: compiled, measured, recorded, chosen."""
