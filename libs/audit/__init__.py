"""Comparing the views with a fold of the log of their own exact positions, while both go on growing."""
