"""The legacy generation as a translator over the same records: one module a resource, both directions in it."""
