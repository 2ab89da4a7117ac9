"""A support assistant to trace, and the tour of its traces: ``otelchain demo``."""
