"""Plans and progress as people see them."""
