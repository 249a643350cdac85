"""`libs/standing` on a terminal, as plain lines, and as JSON."""
