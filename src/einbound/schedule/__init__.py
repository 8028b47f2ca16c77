"""When and where values live: instructions and the cells they read and write."""
