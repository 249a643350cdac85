"""How long a request waits for the views and the fold, in seconds."""

POLL_S = 0.02
RESERVE_WAIT_S = 5.0
"""For the ledger's answer, the queue before it included."""
GATE_WAIT_S = 2.0
"""For a shut gate, or a fresh configuration, before the answer is 503."""
SETTLE_WAIT_S = 8.0
"""In doubt, for the fold: a send's deadline, a fence, and the fold up to it."""
LOOK_WAIT_S = 0.5
"""For one look at the fold where nothing is left of `SETTLE_WAIT_S`."""
READ_WAIT_S = 2.0
"""For a removed vote's record, where its address may have room again: without it the removal goes on."""
