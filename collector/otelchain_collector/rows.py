"""What the decoder hands to the store: one tuple per row, a value for each column of its table."""

from typing import NamedTuple


class SpanRow(NamedTuple):
    """A row of table ``spans``; 0001_spans.sql and 0005_cost.sql say what each column means."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    trace_state: str
    flags: int
    name: str
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    status_code: int
    status_message: str
    attributes: str
    dropped_attributes_count: int
    events: str
    dropped_events_count: int
    links: str
    dropped_links_count: int
    scope_name: str
    scope_version: str
    scope_attributes: str
    scope_dropped_attributes_count: int
    scope_schema_url: str
    resource_attributes: str
    resource_dropped_attributes_count: int
    resource_schema_url: str
    dialect: str
    service_name: str | None
    run_id: str | None
    parent_run_id: str | None
    run_name: str | None
    run_type: str | None
    run_status: str
    error_type: str | None
    error: str | None
    model: str | None
    provider: str | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    time_to_first_token_ms: float | None
    session_id: str | None
    user_id: str | None
    agent_name: str | None
    tool_call_id: str | None
    document_count: int | None
    retry_attempt: int | None
    tags: list[str] | None
    metadata: str | None
    langgraph_node: str | None
    langgraph_step: int | None
    langgraph_checkpoint_ns: str | None
    inputs_attribute: str | None
    outputs_attribute: str | None
    inputs_built: str | None
    outputs_built: str | None
    cost_usd: float | None
    context_window: int | None
    finish_reasons: list[str] | None
    service_version: str | None
    inputs_hash: int | None
    rubric_result: str | None
    fallback_index: int | None
    received_time_unix_nano: int
    resource_entity_refs: str | None

    def rejected(self, reason: str) -> "RejectedRecord":
        """Return the row that stands for this one when it cannot be stored."""
        return RejectedRecord(
            self.received_time_unix_nano,
            reason,
            self.trace_id,
            self.span_id,
            self.name,
            self.service_name,
            "traces",
        )


class LogRow(NamedTuple):
    """A row of table ``logs``; migrations/0004_logs_and_metrics.sql says what is what."""

    record_id: str
    record_time_unix_nano: int
    time_unix_nano: int
    observed_time_unix_nano: int
    severity_number: int
    severity_text: str
    event_name: str
    body: str | None
    attributes: str
    dropped_attributes_count: int
    flags: int
    trace_id: str | None
    span_id: str | None
    scope_name: str
    scope_version: str
    scope_attributes: str
    scope_dropped_attributes_count: int
    scope_schema_url: str
    resource_attributes: str
    resource_dropped_attributes_count: int
    resource_schema_url: str
    resource_entity_refs: str | None
    service_name: str | None
    received_time_unix_nano: int

    def rejected(self, reason: str) -> "RejectedRecord":
        """Return the row that stands for this one when it cannot be stored."""
        return RejectedRecord(
            self.received_time_unix_nano,
            reason,
            self.trace_id,
            self.span_id,
            self.event_name,
            self.service_name,
            "logs",
        )


class MetricPointRow(NamedTuple):
    """A row of table ``metric_points``; migrations/0004_logs_and_metrics.sql says what is what."""

    record_id: str
    name: str
    description: str
    unit: str
    metadata: str
    kind: str
    aggregation_temporality: int | None
    is_monotonic: bool | None
    attributes: str
    start_time_unix_nano: int
    time_unix_nano: int
    flags: int
    value_double: float | None
    value_int: int | None
    count: int | None  # type: ignore[assignment]  # the field's name in OTLP, and a method of tuples
    sum: float | None
    min: float | None
    max: float | None
    explicit_bounds: list[float] | None
    bucket_counts: list[int] | None
    scale: int | None
    zero_count: int | None
    zero_threshold: float | None
    positive_offset: int | None
    positive_bucket_counts: list[int] | None
    negative_offset: int | None
    negative_bucket_counts: list[int] | None
    quantiles: list[float] | None
    quantile_values: list[float] | None
    exemplars: str
    scope_name: str
    scope_version: str
    scope_attributes: str
    scope_dropped_attributes_count: int
    scope_schema_url: str
    resource_attributes: str
    resource_dropped_attributes_count: int
    resource_schema_url: str
    resource_entity_refs: str | None
    service_name: str | None
    received_time_unix_nano: int

    def rejected(self, reason: str) -> "RejectedRecord":
        """Return the row that stands for this one when it cannot be stored."""
        return RejectedRecord(
            self.received_time_unix_nano,
            reason,
            None,
            None,
            self.name,
            self.service_name,
            "metrics",
        )


class RejectedRecord(NamedTuple):
    """A row of table ``rejected_records``: a record that can never be stored, and why."""

    received_time_unix_nano: int
    reason: str
    trace_id: str | None
    span_id: str | None
    name: str | None
    service_name: str | None
    signal: str
