"""The peers whose spans are recorded: what to install, what to set, where the recording is."""

import gzip
from dataclasses import dataclass, field
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"

_CORE = ("langchain-core==1.8.3", "langgraph==1.2.24", "opentelemetry-exporter-otlp-proto-http")


@dataclass(frozen=True)
class Peer:
    """One version of an instrumentation.

    Args:
        name: Folder of its recording.
        title: What it is called in documents.
        attach: Module in attach/ that turns it on.
        requirements: For pip; the rest is pinned by the recording's constraints.txt.
        variables: Environment of the application, besides what attach/ sets.
    """

    name: str
    title: str
    attach: str
    requirements: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where its recording is."""
        return RECORDED / self.name

    def requests(self) -> list[bytes]:
        """Return the bodies of the recorded requests, in the order they were sent."""
        files = sorted(self.folder.glob("*.pb.gz"))
        return [gzip.decompress(file.read_bytes()) for file in files]


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "otel-genai-1.3b0",
            "OpenTelemetry GenAI 1.3b0",
            "otel_genai",
            # It instruments only where langchain itself is installed.
            ("opentelemetry-instrumentation-genai-langchain==1.3b0", "langchain", *_CORE),
        ),
        Peer(
            "otel-genai-1.0b0",
            "OpenTelemetry GenAI 1.0b0",
            "otel_genai",
            ("opentelemetry-instrumentation-genai-langchain==1.0b0", "langchain", *_CORE),
        ),
        Peer(
            "openinference-0.1.80",
            "OpenInference 0.1.80",
            "openinference",
            ("openinference-instrumentation-langchain==0.1.80", *_CORE),
        ),
        Peer(
            "openinference-0.1.80-genai",
            "OpenInference 0.1.80 with GenAI names",
            "openinference",
            ("openinference-instrumentation-langchain==0.1.80", *_CORE),
            {"OPENINFERENCE_ENABLE_GENAI_SEMCONV": "true"},
        ),
        Peer(
            "openllmetry-0.62.4",
            "OpenLLMetry 0.62.4",
            "openllmetry",
            ("opentelemetry-instrumentation-langchain==0.62.4", "langchain", *_CORE),
        ),
        Peer(
            "openllmetry-0.47.5",
            "OpenLLMetry 0.47.5",
            "openllmetry",
            (
                "opentelemetry-instrumentation-langchain==0.47.5",
                "opentelemetry-semantic-conventions-ai==0.4.13",
                "opentelemetry-sdk==1.37.0",
                "setuptools<81",
                "wrapt<2",
                *_CORE,
            ),
        ),
        Peer(
            "langfuse-5.0.4", "Langfuse 5.0.4", "langfuse", ("langfuse==5.0.4", "langchain", *_CORE)
        ),
        Peer(
            "langsmith-0.15.1", "LangSmith 0.15.1", "langsmith", ("langsmith[otel]==0.15.1", *_CORE)
        ),
        Peer(
            "langsmith-0.4.37",
            "LangSmith 0.4.37",
            "langsmith",
            (
                "langsmith[otel]==0.4.37",
                "langchain-core==1.0.7",
                "langgraph==1.0.3",
                "opentelemetry-exporter-otlp-proto-http",
            ),
            {"LANGSMITH_OTEL_ENABLED": "true", "LANGSMITH_OTEL_ONLY": "true"},
        ),
        Peer("openlit-1.45.0", "OpenLIT 1.45.0", "openlit", ("openlit==1.45.0", *_CORE)),
    )
}
