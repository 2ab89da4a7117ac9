-- title: Mixed-status parents
-- description: Runs of whose direct children some failed and some succeeded, newest first. Kind retried: every failed child was an attempt that a later attempt made good. Pending, cancelled, interrupted and abandoned children count as neither. A parent that is not stored has no name.
-- why: Such a run often ends well although a part of it is missing: an answer from three sources of which one was down.
-- example: otelchain query mixed-status-parents --retried false --since 24h
-- next: 'otelchain show TRACE_ID' shows the branches side by side; the column first_error says why the first one failed.
-- finding: Below {name|a run that is not stored}, steps failed {failed_count:times} and succeeded {succeeded_count:times}; it ended as {status|unknown}.
-- weight: 50
-- param: retried = true  also show parents whose failed children all succeeded on a later attempt
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH suspects AS (
    -- A child starts after its parent, so the children's own time bounds the search.
    SELECT DISTINCT trace_id, parent_span_id
    FROM runs
    WHERE status IN ('error', 'handled_error')
        AND parent_span_id IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
mixed AS (
    SELECT
        trace_id,
        parent_span_id,
        min(start_time_unix_nano) AS first_start_time_unix_nano,
        arg_min(service_name, start_time_unix_nano) AS first_service_name
    FROM runs
    JOIN suspects USING (trace_id, parent_span_id)
    WHERE start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND span_id <> parent_span_id  -- some writers make a root its own parent
    GROUP BY trace_id, parent_span_id
    HAVING count(*) FILTER (status IN ('error', 'handled_error')) > 0
        AND count(*) FILTER (status = 'ok') > 0
),
parents AS (
    SELECT
        mixed.trace_id,
        mixed.parent_span_id,
        run.span_id IS NOT NULL AS parent_stored,
        run.name,
        run.status,
        run.duration_ms,
        run.langgraph_checkpoint_ns,
        coalesce(run.start_time_unix_nano, first_start_time_unix_nano) AS shown_unix_nano,
        if(parent_stored, run.service_name, first_service_name) AS shown_service_name
    FROM mixed
    LEFT JOIN runs AS run
        ON run.trace_id = mixed.trace_id AND run.span_id = mixed.parent_span_id
    WHERE shown_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND shown_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR shown_service_name = $service)
    ORDER BY shown_unix_nano DESC, mixed.trace_id, mixed.parent_span_id
    -- All of these are shown, unless those that were made good are to be left out.
    LIMIT if($retried::BOOLEAN, $limit::BIGINT, 9_223_372_036_854_775_807)
),
children AS (
    SELECT
        run.row_id,
        run.trace_id,
        run.parent_span_id,
        run.span_id,
        run.name,
        run.status,
        run.start_time_unix_nano,
        run.run_type,
        run.retry_attempt,
        -- Attempts of a LangGraph node with a RetryPolicy share this key. Only the topmost run of a
        -- task is an attempt: the runs inside it have the same step and namespace.
        if(
            run.name = run.langgraph_node
                AND run.langgraph_checkpoint_ns IS DISTINCT FROM parents.langgraph_checkpoint_ns,
            [run.langgraph_step::VARCHAR, run.langgraph_checkpoint_ns],
            NULL
        ) AS task
    FROM runs AS run
    JOIN parents
        ON run.trace_id = parents.trace_id AND run.parent_span_id = parents.parent_span_id
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND run.span_id <> run.parent_span_id
),
made_good AS (
    SELECT DISTINCT failed.row_id
    FROM children AS failed
    JOIN children AS later
        ON later.trace_id = failed.trace_id
        AND later.parent_span_id = failed.parent_span_id
        AND later.name = failed.name
        AND later.run_type IS NOT DISTINCT FROM failed.run_type
    WHERE failed.status IN ('error', 'handled_error')
        AND later.status = 'ok'
        AND (
            -- Runnable.with_retry: LangChain numbers the attempts from the second on.
            (
                later.retry_attempt > coalesce(failed.retry_attempt, 1)
                AND later.task IS NOT DISTINCT FROM failed.task
            )
            OR (
                later.task = failed.task
                AND later.start_time_unix_nano > failed.start_time_unix_nano
            )
        )
),
judged AS (
    SELECT
        children.*,
        CASE
            WHEN made_good.row_id IS NOT NULL THEN 'retried'
            WHEN children.status IN ('error', 'handled_error') THEN 'failed'
            WHEN children.status = 'ok' THEN 'succeeded'
            ELSE 'other'
        END AS verdict
    FROM children
    LEFT JOIN made_good USING (row_id)
),
families AS (
    SELECT
        trace_id,
        parent_span_id,
        count(*) FILTER (verdict = 'failed') AS failed_count,
        count(*) FILTER (verdict = 'succeeded') AS succeeded_count,
        count(*) FILTER (verdict = 'retried') AS retried_count,
        count(*) FILTER (verdict = 'other') AS other_count,
        list(name ORDER BY start_time_unix_nano, span_id) FILTER (verdict = 'failed')
            AS failed_children,
        list(name ORDER BY start_time_unix_nano, span_id) FILTER (verdict = 'succeeded')
            AS succeeded_children,
        list(name ORDER BY start_time_unix_nano, span_id) FILTER (verdict = 'retried')
            AS retried_children,
        list(name || ' (' || status || ')' ORDER BY start_time_unix_nano, span_id)
            FILTER (verdict = 'other') AS other_children,
        -- The first failure that was not made good, else the first that was.
        first(row_id ORDER BY verdict, start_time_unix_nano, span_id)
            FILTER (verdict IN ('failed', 'retried')) AS first_failure
    FROM judged
    GROUP BY trace_id, parent_span_id
    HAVING failed_count + retried_count > 0 AND succeeded_count > 0
),
picked AS (
    SELECT
        families.*,
        parents.parent_stored,
        parents.name,
        parents.status,
        parents.duration_ms,
        if(failed_count > 0, 'mixed', 'retried') AS kind,
        shown_unix_nano,
        shown_service_name
    FROM families
    JOIN parents USING (trace_id, parent_span_id)
    WHERE $retried::BOOLEAN OR kind = 'mixed'
    ORDER BY shown_unix_nano DESC, trace_id, parent_span_id
    LIMIT $limit::BIGINT
)
SELECT
    picked.trace_id,
    picked.parent_span_id AS span_id,
    picked.name,
    picked.kind,
    picked.status,
    picked.duration_ms,
    make_timestamp_ns(shown_unix_nano) AS start_time,
    picked.failed_children,
    picked.succeeded_children,
    picked.retried_children,
    picked.other_children,
    -- A tool that answered with an error message has that message as its output.
    coalesce(failure.error, if(failure.status = 'handled_error', failure.outputs, NULL))
        AS first_error,
    failure.span_id AS first_error_span_id,
    picked.failed_count,
    picked.succeeded_count,
    picked.retried_count,
    picked.other_count,
    picked.parent_stored,
    picked.shown_service_name AS service_name
FROM picked
JOIN runs AS failure ON failure.row_id = picked.first_failure
ORDER BY shown_unix_nano DESC, picked.trace_id, picked.parent_span_id;
