"""The generated parts of the documents about peers: a table of facts, and how to attach each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelchain_collector.decode import decode
from otelchain_collector.store import Store
from peers.known import PEERS, Peer
from peers.reading import read_facts, read_run_types
from peers.specification import FACTS, RUN_TYPES

_ATTACH = Path(__file__).parent / "attach"
_NEWEST = (
    "openinference-0.1.80",
    "openllmetry-0.62.4",
    "otel-genai-1.3b0",
    "langfuse-5.0.4",
    "langsmith-0.15.1",
    "openlit-1.45.0",
)
#: What users ask for → the facts that must be there (``=``: where they have that value).
_ROWS: dict[str, tuple[str, ...]] = {
    "retrievers": ("retriever.status",),
    "their names": ("retriever.name",),
    "number of documents, 0 included": ("retriever.document_count",),
    "tools": ("tool.name",),
    "a tool's handled error": ("tool.status=handled_error",),
    "tool call ids": ("tool.tool_call_id",),
    "error messages": ("retriever.error",),
    "error types": ("retriever.error_type", "tool.error_type"),
    "the model that answered": ("llm.model",),
    "provider": ("llm.provider",),
    "tokens in and out": ("llm.input_tokens", "llm.output_tokens"),
    "cached tokens": ("llm.cache_read_tokens", "llm.cache_write_tokens"),
    "reasoning tokens": ("llm.reasoning_tokens",),
    "time to first token": ("llm.first_token_after_50_ms",),
    "finish reason": ("llm.finish_reasons",),
    "inputs and outputs": ("llm.input_names", "llm.output_names", "tool.output_names"),
    "session": ("llm.session_id", "retriever.session_id", "tool.session_id"),
    "user": ("llm.user_id", "retriever.user_id"),
    "tags": ("llm.tagged_beta", "retriever.tagged_beta"),
    "metadata": ("llm.tenant",),
    "second tries marked": ("retriever.retry_attempt",),
    "LangGraph's nodes": ("llm.langgraph_node", "tool.langgraph_node"),
}
_INNER_CHAINS = ("with_spare", "with_retry", "act", "guess")


def facts_table() -> str:
    """Return which peer's recording has which fact, as Markdown."""
    stored = {name: _stored(PEERS[name]) for name in _NEWEST}
    lines = [
        "| | " + " | ".join(PEERS[name].title for name in _NEWEST) + " |",
        "| --- |" + " --- |" * len(_NEWEST),
        _line("chains inside chains", [_chains(stored[name][1]) for name in _NEWEST]),
    ]
    for title, facts in _ROWS.items():
        lines.append(_line(title, [_share(stored[name][0], facts) for name in _NEWEST]))
    return "\n".join(lines) + "\n"


def attach_sections() -> str:
    """Return, for each peer, what to install and the code that the recordings were made with."""
    sections = []
    for name in _NEWEST:
        peer = PEERS[name]
        code = (_ATTACH / f"{peer.attach}.py").read_text()
        packages = [f"'{peer.requirements[0].partition('==')[0]}'"]
        if "OTLPSpanExporter" in code:
            packages.append("opentelemetry-exporter-otlp-proto-http")
        install = f"pip install {' '.join(packages)}"
        title = peer.title.rpartition(" ")[0]
        sections.append(f"**{title}**: `{install}`\n\n```python\n{code}```\n")
    return "\n".join(sections)


def _stored(peer: Peer) -> tuple[dict[str, list[Any]], set[tuple[str, str]]]:
    store = Store.open(":memory:")
    try:
        traces = set()
        for body in peer.requests():
            rows = decode(ExportTraceServiceRequest.FromString(body), 1).rows
            store.insert(rows)
            traces |= {row.trace_id for row in rows}
        ask = _asking(store)
        return read_facts(ask, traces), read_run_types(ask, traces)
    finally:
        store.close()


def _asking(store: Store) -> Callable[[str], list[dict[str, Any]]]:
    def ask(statement: str) -> list[dict[str, Any]]:
        answer = store.database.cursor().execute(statement)
        columns = [column[0] for column in answer.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]

    return ask


def _line(title: str, cells: list[str]) -> str:
    return f"| {title} | " + " | ".join(cells) + " |"


def _chains(run_types: set[tuple[str, str]]) -> str:
    names = {name for name, _ in run_types}
    assert set(_INNER_CHAINS) < set(RUN_TYPES)
    found = sum(name in names for name in _INNER_CHAINS)
    return _word(found, len(_INNER_CHAINS))


def _share(found: dict[str, list[Any]], facts: tuple[str, ...]) -> str:
    pairs = [
        (value, whole)
        for fact, _, only in (fact.partition("=") for fact in facts)
        for value, whole in zip(found[fact] or [None] * len(FACTS[fact]), FACTS[fact], strict=True)
        # A count of 0 that is left out says the same; no documents and no tokens do not.
        if whole is not None and not (whole == 0 and fact.startswith("llm."))
        if not only or whole == only
    ]
    return _word(sum(value == whole for value, whole in pairs), len(pairs))


def _word(found: int, whole: int) -> str:
    if found == whole:
        return "yes"
    return "partly" if found else "no"
