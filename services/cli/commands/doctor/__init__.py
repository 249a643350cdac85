"""The checks of `tally doctor`: of this machine, and of a running stack."""
