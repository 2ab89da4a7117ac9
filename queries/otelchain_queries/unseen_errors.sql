-- title: Errors that nobody saw
-- description: Errors that something handled on the way up, in traces whose root ended well: by service, step and error type, those of most traces first. Only the deepest failing run counts, and not the attempts that a later one made good. A tool that answered with an error message has the status handled_error.
-- why: The answer came, so nobody looked; but a part of it is missing, or was made up.
-- example: otelchain query unseen-errors --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest case; 'otelchain query mixed-status-parents' shows who went on without it.
-- finding: {name} ended as {status} {errors:times} where the whole trace ended well all the same.
-- weight: 75
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH failed AS (
    SELECT row_id, trace_id, span_id, parent_span_id, status
    FROM runs
    WHERE status IN ('error', 'handled_error')
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
),
good_traces AS (
    -- By their roots, as in first_causes.sql.
    SELECT trace_id
    FROM runs
    SEMI JOIN failed USING (trace_id)
    GROUP BY trace_id
    HAVING coalesce(
        bool_or(status = 'ok') FILTER (parent_span_id IS NULL),
        arg_min(status, start_time_unix_nano) = 'ok'
    )
),
deepest AS (
    SELECT row_id
    FROM failed
    ANTI JOIN (
        SELECT trace_id, parent_span_id AS span_id
        FROM failed
        WHERE parent_span_id <> span_id  -- some writers make a root its own parent
    ) AS child USING (trace_id, span_id)
    WHERE trace_id IN (SELECT trace_id FROM good_traces)
),
unseen AS MATERIALIZED (
    SELECT
        run.row_id,
        run.trace_id,
        run.parent_span_id,
        run.name,
        run.run_type,
        run.status,
        run.error_type,
        run.service_name,
        run.retry_attempt,
        run.langgraph_step,
        run.langgraph_checkpoint_ns,
        run.start_time_unix_nano
    FROM deepest
    JOIN runs AS run USING (row_id)
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR run.service_name = $service)
        AND run.parent_span_id IS NOT NULL
),
made_good AS (
    SELECT unseen.row_id
    FROM unseen
    JOIN runs AS later
        ON later.trace_id = unseen.trace_id
        AND later.parent_span_id = unseen.parent_span_id
        AND later.name = unseen.name
    WHERE later.status = 'ok'
        AND (later.retry_attempt IS NOT NULL OR later.name = later.langgraph_node)
        AND later.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND (
            -- As in mixed_status_parents.sql: with_retry, and LangGraph's RetryPolicy.
            (
                later.retry_attempt > coalesce(unseen.retry_attempt, 1)
                AND later.langgraph_checkpoint_ns
                    IS NOT DISTINCT FROM unseen.langgraph_checkpoint_ns
            )
            OR (
                later.name = later.langgraph_node
                AND later.langgraph_step = unseen.langgraph_step
                AND later.langgraph_checkpoint_ns = unseen.langgraph_checkpoint_ns
                AND later.start_time_unix_nano > unseen.start_time_unix_nano
            )
        )
),
kinds AS (
    SELECT
        service_name,
        run_type,
        name,
        status,
        error_type,
        count(*) AS errors,
        count(DISTINCT trace_id) AS traces,
        arg_max(row_id, start_time_unix_nano) AS newest_row
    FROM unseen
    ANTI JOIN made_good USING (row_id)
    GROUP BY service_name, run_type, name, status, error_type
    ORDER BY traces DESC, errors DESC, name, error_type, status, run_type, service_name
    LIMIT $limit::BIGINT
)
SELECT
    newest.trace_id,
    newest.span_id,
    kinds.name,
    kinds.run_type,
    kinds.status,
    kinds.error_type,
    kinds.errors,
    kinds.traces,
    newest.start_time AS newest_time,
    newest.error AS newest_error,
    kinds.service_name
FROM kinds
JOIN runs AS newest ON newest.row_id = kinds.newest_row
ORDER BY
    kinds.traces DESC,
    kinds.errors DESC,
    kinds.name,
    kinds.error_type,
    kinds.status,
    kinds.run_type,
    kinds.service_name;
