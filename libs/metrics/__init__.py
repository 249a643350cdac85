"""Prometheus metrics: one table of names, help texts and labels."""
