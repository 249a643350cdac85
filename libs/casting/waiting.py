"""How long a request waits for what is being settled, in seconds."""

POLL_S = 0.02
GATE_WAIT_S = 2.0
"""For a shut gate, or a fresh configuration, before it is told so."""
SETTLE_WAIT_S = 8.0
"""In doubt, for the fold: a send's deadline, a fence, and the fold up to it."""
