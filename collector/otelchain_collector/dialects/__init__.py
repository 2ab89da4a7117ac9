"""How each instrumentation spells the facts of a LangChain run; one module per dialect."""
