-- title: Unfinished runs
-- description: Runs that have not ended (status pending: still going, or their process was killed) or whose end was never reported (status abandoned: its reader left, or it was too old), newest first. quiet_ms is the time since the start of a pending run; abandoned ones have none.
-- why: A run that hangs fails nowhere, and a killed process says nothing.
-- example: otelchain query unfinished-runs --min-quiet 1h --since 7d
-- next: 'otelchain show TRACE_ID' shows how far it came, with its input.
-- finding: Run {name} has not ended for {quiet_ms:duration}.
-- weight: 65
-- param: min_quiet = 5m  how long a pending run must have been going: 30s, 5m, 1h
-- param: now = 2262-01-01  count quiet_ms up to this UTC time, and at the latest up to the present
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH present AS (
    -- Not the newest start in the store: of an application that was killed there comes none.
    SELECT least(epoch_ns($now::TIMESTAMP_NS), epoch_us(now()) * 1000) AS unix_nano
),
picked AS (
    SELECT
        row_id,
        if(status = 'pending', (present.unix_nano - start_time_unix_nano) / 1e6, NULL) AS quiet_ms
    FROM runs, present
    WHERE status IN ('pending', 'abandoned')
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND (
            status = 'abandoned'
            OR present.unix_nano - start_time_unix_nano >= epoch_us($min_quiet::INTERVAL) * 1000
        )
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.run_type,
    run.status,
    picked.quiet_ms,
    run.duration_ms,
    run.start_time,
    run.error AS end_reason,
    run.session_id,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
