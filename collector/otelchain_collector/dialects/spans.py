"""What the normaliser reads (SpanFacts) and what it answers (Normalised)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One span event with decoded attribute values."""

    name: str
    time_unix_nano: int
    attributes: Mapping[str, Any]


class SpanFacts(NamedTuple):
    """The parts of an OTLP span that can say something about a run.

    Attribute values are decoded Python values: str, int, float, bool, bytes, list, dict, None.
    ``status_code`` is OTLP's StatusCode (0 unset, 1 ok, 2 error).
    """

    name: str
    kind: int
    status_code: int
    status_message: str
    attributes: Mapping[str, Any]
    events: Sequence[Event]
    scope_name: str
    resource: Mapping[str, Any]
    start_time_unix_nano: int
    end_time_unix_nano: int


class Normalised(NamedTuple):
    """The normalised columns of table ``spans`` (migrations/0001_spans.sql, 0005_cost.sql).

    None is stored as NULL and means that the span does not say. ``metadata``, ``inputs_built``
    and ``outputs_built`` are JSON text.
    """

    dialect: str
    service_name: str | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    run_name: str | None = None
    run_type: str | None = None
    run_status: str = "ok"
    error_type: str | None = None
    error: str | None = None
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    time_to_first_token_ms: float | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_name: str | None = None
    tool_call_id: str | None = None
    document_count: int | None = None
    retry_attempt: int | None = None
    tags: list[str] | None = None
    metadata: str | None = None
    langgraph_node: str | None = None
    langgraph_step: int | None = None
    langgraph_checkpoint_ns: str | None = None
    inputs_attribute: str | None = None
    outputs_attribute: str | None = None
    inputs_built: str | None = None
    outputs_built: str | None = None
    cost_usd: float | None = None
    context_window: int | None = None
    finish_reasons: list[str] | None = None
    service_version: str | None = None
    inputs_hash: int | None = None
    rubric_result: str | None = None
    fallback_index: int | None = None
