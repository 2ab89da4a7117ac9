"""The probes: one module for each group, one function for each question."""
