"""A voting page to copy from: a page, a module, and a backend of a few lines that holds the API key."""
