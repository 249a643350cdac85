"""Compares the views with an independent fold of the log, at exact positions; both may grow meanwhile."""
