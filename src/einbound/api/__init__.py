"""The public functions, wired from the layers below."""
