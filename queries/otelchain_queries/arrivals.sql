-- title: Runs as they arrived
-- description: Runs in the order in which the collector received them, oldest first, or newest first. A run that is sent while it runs arrives twice: pending, and when it has ended. What an unstopped run has by then is shown; inputs and outputs are not.
-- why: To follow what happens, ask again for what arrived since the newest row; a run's start says nothing about when it can be seen.
-- example: otelchain query arrivals --after 5m
-- next: 'otelchain tail' asks this again and again; 'otelchain show TRACE_ID' shows the whole trace.
-- param: after = 1970-01-01  only what was received at or after this UTC time
-- param: newest_first = false  newest first instead of oldest first
-- param: status =   only runs with this status; empty for every status
-- param: run_type =   only runs of this type; empty for every type
-- param: name =   only runs of this name; empty for every name
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH arrived AS (
    SELECT rowid AS row_id, received_time_unix_nano
    FROM spans
    WHERE received_time_unix_nano >= epoch_ns($after::TIMESTAMP_NS)
    UNION ALL
    SELECT row_id, received_time_unix_nano
    FROM pending_spans
    WHERE received_time_unix_nano >= epoch_ns($after::TIMESTAMP_NS)
),
picked AS (
    SELECT run.row_id, arrived.received_time_unix_nano
    FROM arrived
    JOIN runs AS run USING (row_id)
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR run.service_name = $service)
        AND ($status = '' OR run.status = $status)
        AND ($run_type = '' OR run.run_type = $run_type)
        AND ($name = '' OR run.name = $name)
    ORDER BY
        if($newest_first::BOOLEAN, -1, 1) * arrived.received_time_unix_nano,
        if($newest_first::BOOLEAN, -1, 1) * run.start_time_unix_nano,
        if($newest_first::BOOLEAN, run.trace_id, '') DESC,
        run.trace_id,
        if($newest_first::BOOLEAN, run.span_id, '') DESC,
        run.span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.parent_span_id,
    run.name,
    run.run_type,
    run.status,
    run.start_time,
    run.duration_ms,
    run.model,
    run.total_tokens,
    run.error_type,
    run.session_id,
    run.service_name,
    make_timestamp_ns(picked.received_time_unix_nano) AS received_time
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY
    if($newest_first::BOOLEAN, -1, 1) * picked.received_time_unix_nano,
    if($newest_first::BOOLEAN, -1, 1) * run.start_time_unix_nano,
    if($newest_first::BOOLEAN, run.trace_id, '') DESC,
    run.trace_id,
    if($newest_first::BOOLEAN, run.span_id, '') DESC,
    run.span_id;
