import os

# Before langchain-core is imported. Nothing goes to LangSmith's server; any key will do. Older
# versions have LANGSMITH_OTEL_ENABLED and LANGSMITH_OTEL_ONLY for the mode.
os.environ["LANGSMITH_TRACING"] = "true"
os.environ["LANGSMITH_TRACING_MODE"] = "otel"
os.environ["LANGSMITH_API_KEY"] = "none"
os.environ.setdefault("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
