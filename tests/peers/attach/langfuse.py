from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

# Any keys will do: an exporter of your own replaces the one to Langfuse's server.
Langfuse(public_key="none", secret_key="none", span_exporter=OTLPSpanExporter())
handler = CallbackHandler(public_key="none")  # for chain.with_config(callbacks=[handler])
