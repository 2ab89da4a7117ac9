-- title: Errors by first cause
-- description: Errors counted where they began: at the deepest run that failed, not at every run above it that failed with it. By service, step and error type, those that failed most traces first; failed_traces counts the traces whose root failed too.
-- why: One broken tool shows up as ten errors in a trace; here it is one.
-- example: otelchain query first-causes --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest case; 'otelchain query unseen-errors' has those that nobody noticed.
-- finding: {name} failed {errors:times} with {error_type|an unknown error}; the whole trace failed with it {failed_traces:times}.
-- weight: 80
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH failed AS (
    SELECT row_id, trace_id, span_id, parent_span_id, status
    FROM runs
    WHERE status IN ('error')
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
),
deepest AS (
    SELECT row_id
    FROM failed
    ANTI JOIN (
        SELECT trace_id, parent_span_id AS span_id
        FROM failed
        WHERE parent_span_id <> span_id  -- some writers make a root its own parent
    ) AS child USING (trace_id, span_id)
),
failed_roots AS (
    -- A root has no parent. Where every run has one, the first run is the root, and its parent is
    -- not stored: the span of a server that is sent elsewhere, or LangSmith's that is never sent.
    SELECT trace_id
    FROM runs
    SEMI JOIN failed USING (trace_id)
    GROUP BY trace_id
    HAVING coalesce(
        bool_or(status = 'error') FILTER (parent_span_id IS NULL),
        arg_min(status, start_time_unix_nano) = 'error'
    )
),
causes AS (
    SELECT
        run.service_name,
        run.run_type,
        run.name,
        run.error_type,
        count(*) AS errors,
        count(DISTINCT run.trace_id) AS traces,
        count(DISTINCT failed_roots.trace_id) AS failed_traces,
        arg_max(row_id, run.start_time_unix_nano) AS newest_row
    FROM deepest
    JOIN runs AS run USING (row_id)
    LEFT JOIN failed_roots ON failed_roots.trace_id = run.trace_id
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR run.service_name = $service)
    GROUP BY run.service_name, run.run_type, run.name, run.error_type
    ORDER BY
        failed_traces DESC,
        errors DESC,
        run.name,
        run.error_type,
        run.run_type,
        run.service_name
    LIMIT $limit::BIGINT
)
SELECT
    newest.trace_id,
    newest.span_id,
    causes.name,
    causes.run_type,
    causes.error_type,
    causes.errors,
    causes.traces,
    causes.failed_traces,
    newest.start_time AS newest_time,
    newest.error AS newest_error,
    causes.service_name
FROM causes
JOIN runs AS newest ON newest.row_id = causes.newest_row
ORDER BY
    causes.failed_traces DESC,
    causes.errors DESC,
    causes.name,
    causes.error_type,
    causes.run_type,
    causes.service_name;
