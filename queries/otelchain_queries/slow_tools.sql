-- title: Slow tools
-- description: Tool runs that took at least a given time, slowest first, with what they were called with. For a tool that answered with an error message (handled_error), the error is that message.
-- why: A model waits for its tools; one slow tool makes every answer slow that needs it.
-- example: otelchain query slow-tools --min-duration 2s --since 24h
-- next: 'otelchain show TRACE_ID' shows what waited for it; 'otelchain query slow-steps --run-type tool' tells whether it is always slow.
-- finding: Tool {name} took {duration_ms:duration} and ended as {status}.
-- weight: 40
-- param: min_duration = 5s  shortest duration to show: 500ms, 5s, 2m
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH picked AS (
    SELECT row_id, trace_id, parent_span_id
    FROM runs
    WHERE run_type = 'tool'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND end_time_unix_nano - start_time_unix_nano >= epoch_us($min_duration::INTERVAL) * 1000
    ORDER BY
        end_time_unix_nano - start_time_unix_nano DESC,
        start_time_unix_nano DESC,
        trace_id,
        span_id
    LIMIT $limit::BIGINT
),
parents AS (
    SELECT picked.row_id, any_value(run.name) AS name
    FROM picked
    JOIN runs AS run
        ON run.trace_id = picked.trace_id AND run.span_id = picked.parent_span_id
    GROUP BY picked.row_id
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
    coalesce(run.error, if(run.status = 'handled_error', run.outputs, NULL)) AS error,
    run.retry_attempt,
    parents.name AS parent_name,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN parents USING (row_id)
ORDER BY
    run.end_time_unix_nano - run.start_time_unix_nano DESC,
    run.start_time_unix_nano DESC,
    run.trace_id,
    run.span_id;
