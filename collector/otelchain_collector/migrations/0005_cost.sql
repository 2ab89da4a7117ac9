-- What a run cost and how much its model takes in, and small facts that questions look for: as columns
-- of their own, so that no question reads the attributes of a whole store. NULL in rows that are older
-- than this file. The columns of pending_spans are those of spans.
ALTER TABLE spans ADD COLUMN cost_usd DOUBLE;            -- of a model run, as stated or from genai-prices
ALTER TABLE spans ADD COLUMN context_window BIGINT;      -- tokens, from genai-prices
ALTER TABLE spans ADD COLUMN finish_reasons VARCHAR[];   -- in the provider's own words
ALTER TABLE spans ADD COLUMN service_version VARCHAR;
ALTER TABLE spans ADD COLUMN inputs_hash BIGINT;         -- of a tool's or retriever's input, keys sorted
ALTER TABLE spans ADD COLUMN rubric_result VARCHAR;      -- RubricMiddleware's verdict
ALTER TABLE spans ADD COLUMN fallback_index INTEGER;      -- of the alternative that answered, 0 = the first
ALTER TABLE pending_spans ADD COLUMN cost_usd DOUBLE;
ALTER TABLE pending_spans ADD COLUMN context_window BIGINT;
ALTER TABLE pending_spans ADD COLUMN finish_reasons VARCHAR[];
ALTER TABLE pending_spans ADD COLUMN service_version VARCHAR;
ALTER TABLE pending_spans ADD COLUMN inputs_hash BIGINT;
ALTER TABLE pending_spans ADD COLUMN rubric_result VARCHAR;
ALTER TABLE pending_spans ADD COLUMN fallback_index INTEGER;

-- As in 0003_pending_spans.sql, with the new columns.
CREATE OR REPLACE VIEW runs AS
SELECT
    trace_id,
    span_id,
    parent_span_id,
    run_id,
    parent_run_id,
    coalesce(run_name, name) AS name,
    run_type,
    run_status AS status,
    make_timestamp_ns(start_time_unix_nano) AS start_time,
    make_timestamp_ns(end_time_unix_nano) AS end_time,
    (end_time_unix_nano - start_time_unix_nano) / 1e6 AS duration_ms,
    error_type,
    error,
    model,
    provider,
    input_tokens,
    output_tokens,
    total_tokens,
    cache_read_tokens,
    cache_write_tokens,
    reasoning_tokens,
    cost_usd,
    context_window,
    finish_reasons,
    time_to_first_token_ms,
    session_id,
    user_id,
    agent_name,
    tool_call_id,
    document_count,
    retry_attempt,
    rubric_result,
    fallback_index,
    tags,
    metadata,
    service_name,
    service_version,
    langgraph_node,
    langgraph_step,
    langgraph_checkpoint_ns,
    dialect,
    inputs_hash,
    start_time_unix_nano,
    end_time_unix_nano,
    row_id,
    coalesce(inputs_built::VARCHAR, attributes ->> inputs_attribute) AS inputs,
    coalesce(outputs_built::VARCHAR, attributes ->> outputs_attribute) AS outputs
FROM (
    SELECT rowid AS row_id, * FROM spans
    UNION ALL BY NAME
    SELECT * REPLACE (NULL::BIGINT AS end_time_unix_nano) FROM pending_spans
);
