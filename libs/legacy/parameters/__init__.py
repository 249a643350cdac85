"""Legacy parameters: one module per resource maps them, and the members of responses, to members of records."""
