"""`tally seal`, `unseal` and `certificate`: the final, publicly verifiable result of a closed contest."""
