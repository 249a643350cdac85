"""`tally doctor`: checks of this machine and of a running stack."""
