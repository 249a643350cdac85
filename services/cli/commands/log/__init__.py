"""`tally log`: a contest's history and the audit log, computed from the log."""
