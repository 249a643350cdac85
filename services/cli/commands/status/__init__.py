"""`tally status`: renders `libs/monitoring` on a terminal, as plain lines, and as JSON."""
