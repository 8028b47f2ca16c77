"""What this machine offers: memory, versions, measured peaks."""
