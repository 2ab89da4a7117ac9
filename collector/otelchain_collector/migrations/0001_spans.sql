-- One row per span. First the fields of OTLP's Span message, kept as they arrived, then what the
-- normaliser read out of them. No primary key and no index: duplicates are dropped by an anti-join
-- over the batch's own time range (a key index made commits 80 times slower at 3 million rows).
-- Only types that DuckLake keeps exactly.
-- Long texts name their compression, because DuckDB guesses zstd to be worse than its dictionary, which
-- takes no row group with a text of 16 KiB. Files from before have the same columns without it.
CREATE TABLE spans (
    -- opentelemetry/proto/trace/v1/trace.proto, message Span
    trace_id VARCHAR NOT NULL,                   -- 32 lower-case hex digits
    span_id VARCHAR NOT NULL,                    -- 16 lower-case hex digits
    parent_span_id VARCHAR,                      -- NULL for a root
    trace_state VARCHAR NOT NULL,
    flags BIGINT NOT NULL,
    name VARCHAR NOT NULL,
    kind INTEGER NOT NULL,                       -- SpanKind: 0 unspecified, 1 internal, 2 server, 3 client, …
    start_time_unix_nano BIGINT NOT NULL,
    end_time_unix_nano BIGINT NOT NULL,
    status_code INTEGER NOT NULL,                -- StatusCode: 0 unset, 1 ok, 2 error
    status_message VARCHAR NOT NULL,
    attributes JSON NOT NULL USING COMPRESSION zstd,  -- flat object, dotted keys; see collector/README.md
    dropped_attributes_count BIGINT NOT NULL,
    events JSON NOT NULL USING COMPRESSION zstd,  -- [{name, time_unix_nano, attributes, dropped_attributes_count}]
    dropped_events_count BIGINT NOT NULL,
    links JSON NOT NULL,                         -- [{trace_id, span_id, trace_state, flags, attributes, dropped_attributes_count}]
    dropped_links_count BIGINT NOT NULL,
    -- ScopeSpans and ResourceSpans around it
    scope_name VARCHAR NOT NULL,
    scope_version VARCHAR NOT NULL,
    scope_attributes JSON NOT NULL,
    scope_dropped_attributes_count BIGINT NOT NULL,
    scope_schema_url VARCHAR NOT NULL,
    resource_attributes JSON NOT NULL,
    resource_dropped_attributes_count BIGINT NOT NULL,
    resource_schema_url VARCHAR NOT NULL,
    -- read by the normaliser (normalise.py); NULL where the span does not say
    dialect VARCHAR NOT NULL,                    -- otelchain, gen_ai, openinference, openllmetry, langfuse, langsmith, openlit, other
    service_name VARCHAR,
    run_id VARCHAR,
    parent_run_id VARCHAR,
    run_name VARCHAR,
    run_type VARCHAR,                            -- chain, llm, tool, retriever, agent, embedding, reranker, prompt, parser, …
    run_status VARCHAR NOT NULL,                 -- ok, error, handled_error, cancelled, interrupted, abandoned
    error_type VARCHAR,
    error VARCHAR,
    model VARCHAR,
    provider VARCHAR,
    input_tokens BIGINT,                         -- cached tokens included
    output_tokens BIGINT,
    total_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    reasoning_tokens BIGINT,
    time_to_first_token_ms DOUBLE,
    session_id VARCHAR,
    user_id VARCHAR,
    agent_name VARCHAR,
    tool_call_id VARCHAR,
    document_count BIGINT,
    retry_attempt INTEGER,
    tags VARCHAR[],
    metadata JSON,
    langgraph_node VARCHAR,
    langgraph_step BIGINT,
    langgraph_checkpoint_ns VARCHAR,
    -- Payload is stored once: these name the attribute that holds it …
    inputs_attribute VARCHAR,
    outputs_attribute VARCHAR,
    -- … or hold it, where it had to be put together from several attributes.
    inputs_built JSON USING COMPRESSION zstd,
    outputs_built JSON USING COMPRESSION zstd,
    received_time_unix_nano BIGINT NOT NULL
);

-- Spans that can never be stored, so that a client which ignores partial success still leaves a trace.
CREATE TABLE rejected_spans (
    received_time_unix_nano BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    trace_id VARCHAR,                            -- hex of whatever arrived
    span_id VARCHAR,
    name VARCHAR,
    service_name VARCHAR
);
