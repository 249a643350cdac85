"""Translators of the legacy API: one module per resource maps its requests and responses to records."""
