"""What is measured: one table of names, helps and labels."""
