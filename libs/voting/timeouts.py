"""Timeouts of a request's waits for the views and the fold, in seconds."""

POLL_S = 0.02
RESERVE_WAIT_S = 5.0
"""Wait for the ledger's answer, including the time in the queue."""
GATE_WAIT_S = 2.0
"""Wait for a closed gate, or for a current configuration, before the answer is 503."""
SETTLE_WAIT_S = 8.0
"""Wait for a record in doubt: covers the producer's delivery timeout, a fence, and the fold up to it."""
LAST_READ_WAIT_S = 0.5
"""Wait for one read of the fold after `SETTLE_WAIT_S` has passed."""
READ_WAIT_S = 2.0
"""Wait for a removed vote's record, whose address gets its votes back; without it the removal continues."""
