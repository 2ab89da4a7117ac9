-- title: Slow tools
-- description: Tool runs that took at least a given time, slowest first, with what they were called with.
-- why: A model waits for its tools; one slow tool makes every answer slow that needs it.
-- param: min_duration = 5s  shortest duration to show: 500ms, 5s, 2m
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH picked AS (
    SELECT row_id
    FROM runs
    WHERE run_type = 'tool'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND end_time_unix_nano - start_time_unix_nano >= epoch_us($min_duration::INTERVAL) * 1000
    ORDER BY
        end_time_unix_nano - start_time_unix_nano DESC,
        start_time_unix_nano DESC,
        trace_id,
        span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.status,
    run.duration_ms,
    run.start_time,
    run.inputs AS tool_input,
    run.error_type,
    run.error,
    parent.name AS parent_name,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN runs AS parent
    ON parent.trace_id = run.trace_id AND parent.span_id = run.parent_span_id
ORDER BY
    run.end_time_unix_nano - run.start_time_unix_nano DESC,
    run.start_time_unix_nano DESC,
    run.trace_id,
    run.span_id;
