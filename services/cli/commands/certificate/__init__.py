"""`tally seal`, `unseal` and `certificate`: a closed contest's result, for good, and for anybody to check."""
