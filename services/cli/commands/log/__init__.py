"""What a contest was at any instant, and how it came to be: folded from the log."""
