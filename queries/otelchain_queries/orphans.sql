-- title: Orphans
-- description: Runs whose parent is not stored, newest first. The runs that LangSmith's exporter hangs under a parent which it never sends are roots, and are left out unless asked for.
-- why: A missing parent is a lost batch, a sampled-out service, or a handler that was attached halfway down.
-- example: otelchain query orphans --since 24h
-- next: 'otelchain query ingestion-health' and 'rejected-spans' tell whether spans were lost here; otherwise look at the sender.
-- finding: Run {name} hangs under a parent that is not stored.
-- weight: 35
-- param: phantoms = false  also show the roots of LangSmith's exporter
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH children AS (
    SELECT row_id, trace_id, span_id, parent_span_id, start_time_unix_nano
    FROM runs
    WHERE parent_span_id IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND ($phantoms::BOOLEAN OR dialect <> 'langsmith')
),
near AS (
    -- Nearly every parent is of the same time, so few have to be looked for in the whole store.
    -- Hashes, since the ids of ten million runs take a gigabyte. Two of them share one with a
    -- probability of 3 in a million; then an orphan may be left out.
    SELECT DISTINCT hash(trace_id, span_id) AS key
    FROM runs
    WHERE start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
suspects AS (
    SELECT children.*
    FROM children
    ANTI JOIN near ON near.key = hash(children.trace_id, children.parent_span_id)
),
elsewhere AS (
    SELECT run.trace_id, run.span_id
    FROM suspects
    JOIN runs AS run
        ON run.trace_id = suspects.trace_id AND run.span_id = suspects.parent_span_id
    WHERE run.start_time_unix_nano < epoch_ns($since::TIMESTAMP_NS)
        OR run.start_time_unix_nano >= epoch_ns($until::TIMESTAMP_NS)
),
orphans AS (
    SELECT row_id
    FROM suspects
    ANTI JOIN elsewhere
        ON elsewhere.trace_id = suspects.trace_id AND elsewhere.span_id = suspects.parent_span_id
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.parent_span_id,
    run.name,
    run.run_type,
    run.status,
    run.duration_ms,
    run.start_time,
    run.dialect,
    run.service_name
FROM orphans
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
