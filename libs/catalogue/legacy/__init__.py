"""Legacy API over the same records: one module per resource translates requests and responses."""
