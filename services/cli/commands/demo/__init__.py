"""`tally demo`: the service with simulated voters."""
