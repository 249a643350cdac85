"""Status of a deployment, and the problems that need an operator: for commands and pages."""
