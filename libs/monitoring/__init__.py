"""How far everything is, and what of it somebody has to see to: for commands and pages alike."""
