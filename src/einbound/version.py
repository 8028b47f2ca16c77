"""The version of the package, for all layers: what is kept on disk is marked with it."""

__version__ = "0.1.0"
