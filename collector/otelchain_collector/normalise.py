"""Normalise a span: from its own dialect (dialects/) to the columns of ``runs`` (decode.py)."""

from typing import Any

from otelchain_collector import prices
from otelchain_collector.dialects import (
    gen_ai,
    langfuse,
    langsmith,
    openinference,
    openlit,
    openllmetry,
    otelchain,
    other,
)
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.inputs_hash import inputs_hash
from otelchain_collector.dialects.spans import Event, Normalised, SpanFacts
from otelchain_collector.dialects.status import settle
from otelchain_collector.dialects.tool_message import tool_call_id, tool_error
from otelchain_collector.dialects.values import MAX_INTEGER, count, identifier, parsed, text

__all__ = ["Event", "Normalised", "SpanFacts", "normalise"]

# Attributes that only one instrumentation writes. Several may be loaded in one process, so each
# span is looked at on its own; the resource says nothing about who wrote it.
_MARKS: tuple[tuple[str, Dialect], ...] = (
    ("otelchain.run.type", otelchain.DIALECT),
    ("openinference.span.kind", openinference.DIALECT),
    ("langfuse.observation.type", langfuse.DIALECT),
    ("langsmith.span.kind", langsmith.DIALECT),
    ("traceloop.span.kind", openllmetry.DIALECT),
    ("llm.request.type", openllmetry.DIALECT),
)
_SCOPES = {
    "otelchain": otelchain.DIALECT,
    "opentelemetry.instrumentation.langchain": openllmetry.DIALECT,
}
_GEN_AI_MARKS = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system")
_WITH_OUTPUT = ("ok", "handled_error")
_RETRY_TAG = "retry:attempt:"  # langchain_core/runnables/retry.py


def normalise(span: SpanFacts) -> Normalised:
    """Return what the span says about its run.

    Never raises: a value that cannot be read leaves its column NULL, and the raw attribute is
    stored anyway. Runs on the writing path for every span.
    """
    found = _recognise(span).read(span)
    found["service_name"] = text(span.resource.get("service.name"))
    found["service_version"] = identifier(span.resource.get("service.version"))
    settle(span, found)
    _add_derived(span, found)
    return Normalised(**found)


def _recognise(span: SpanFacts) -> Dialect:
    attributes = span.attributes
    for mark, dialect in _MARKS:
        if mark in attributes:
            return dialect
    by_scope = _SCOPES.get(span.scope_name)
    if by_scope is not None:
        return by_scope
    if not any(mark in attributes for mark in _GEN_AI_MARKS):
        return other.DIALECT
    return openlit.DIALECT if _is_openlit(span) else gen_ai.DIALECT


def _is_openlit(span: SpanFacts) -> bool:
    return "openlit" in (
        span.attributes.get("telemetry.sdk.name"),
        span.resource.get("telemetry.sdk.name"),
    ) or span.scope_name.startswith("openlit")


def _add_derived(span: SpanFacts, found: Found) -> None:
    if found.get("total_tokens") is None:
        found["total_tokens"] = total_tokens(
            found.get("input_tokens"), found.get("output_tokens"), found.get("run_type")
        )
    run_type = found.get("run_type")
    if run_type in ("tool", "retriever"):
        found["inputs_hash"] = inputs_hash(span, found)
    elif run_type == "llm":
        prices.add(found, span.start_time_unix_nano)
    if found["dialect"] == "otelchain":
        return  # its handler states the rest itself
    if found.get("tags"):
        found.setdefault("retry_attempt", _retry_attempt(found["tags"]))
    _look_into_output(span, found)


def total_tokens(sent: int | None, received: int | None, run_type: str | None) -> int | None:
    """Return the sum for a span that states none."""
    if sent is not None and received is not None:
        return count(sent + received)
    # An embedding model answers with no tokens; anywhere else half a sum is no sum.
    return sent if run_type == "embedding" else None


def _retry_attempt(tags: list[str]) -> int | None:
    for tag in tags:
        number = tag[len(_RETRY_TAG) :] if tag.startswith(_RETRY_TAG) else ""
        if number.isascii() and number.isdigit() and len(number) < len(str(MAX_INTEGER)):
            return int(number)
    return None


def _look_into_output(span: SpanFacts, found: Found) -> None:
    """Read what only the output says: how many documents, whether a tool gave an error."""
    run_type = found.get("run_type")
    if run_type not in ("retriever", "tool") or found["run_status"] not in _WITH_OUTPUT:
        return
    name = found.get("outputs_attribute")
    output = parsed(span.attributes.get(name) if name else found.get("outputs_built"))
    if run_type == "retriever":
        found.setdefault("document_count", _document_count(output))
        return
    if found.get("tool_call_id") is None:
        found["tool_call_id"] = tool_call_id(output)
    error = tool_error(output)
    if error is not None:
        found["run_status"] = "handled_error"
        found["error"] = error


def _document_count(output: Any) -> int | None:
    """Count the documents of a retriever's output: a list, or an object that has one."""
    if isinstance(output, dict):
        output = output.get("documents")
    return len(output) if isinstance(output, list) else None
