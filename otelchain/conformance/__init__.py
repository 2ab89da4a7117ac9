"""Try a LangChain tracer: does it lose a span, leak a secret, hang a span under the wrong parent?

Each probe is a small LangChain application, run with fake models and without a network, and a
verdict on the spans that the tracer left. ``python -m otelchain.conformance`` prints the table.
"""
