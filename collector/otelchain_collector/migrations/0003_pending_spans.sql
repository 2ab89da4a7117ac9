-- Runs that have started and not ended yet, as far as applications send them (OTELCHAIN_LIVE_RUNS).
-- Kept apart from the spans that ended: a row goes when its span comes, in the same commit, and stays
-- when the process was killed. The columns of spans, and one more; who changes spans changes both.
CREATE TABLE pending_spans AS
SELECT
    0::BIGINT AS row_id,  -- below zero, so that it is no rowid of spans; a stored column, because
                          -- DuckDB takes a join's bounds into the scan for columns only
    *
FROM spans
LIMIT 0;

-- As in 0002_runs.sql, with the pending runs. They have no end and no duration, so no question takes
-- them for fast or slow ones.
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
    time_to_first_token_ms,
    session_id,
    user_id,
    agent_name,
    tool_call_id,
    document_count,
    retry_attempt,
    tags,
    metadata,
    service_name,
    langgraph_node,
    langgraph_step,
    langgraph_checkpoint_ns,
    dialect,
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
