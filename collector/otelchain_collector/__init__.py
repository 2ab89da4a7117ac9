"""The sidecar: OTLP in, DuckDB rows out, questions answered while it collects."""
