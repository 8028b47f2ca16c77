"""The one walker of instructions, and the one allocator."""
