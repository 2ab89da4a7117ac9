-- title: Fallbacks used
-- description: Runs of RunnableWithFallbacks that ended well although their first choice failed, newest first: what failed, with which error, and what answered instead. What it says itself counts first; where a span does not say that it is such a run, it is known by its name, and one that was given another name is not recognised.
-- why: A fallback keeps the answers coming while the first choice is down; somebody should know.
-- example: otelchain query fallbacks --since 24h
-- next: 'otelchain query first-causes' counts the errors of the first choice; 'otelchain query token-use' shows what the fallback costs.
-- finding: {used_name|Another choice} answered because {failed_name|the first choice} failed ({error_type|unknown error}).
-- weight: 45
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH parents AS (
    SELECT row_id, trace_id, span_id, start_time_unix_nano, fallback_index
    FROM runs
    WHERE status = 'ok'
        AND coalesce(fallback_index > 0, starts_with(name, 'RunnableWithFallbacks'))
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
children AS (
    SELECT
        parents.row_id,
        arg_min(run.status, run.start_time_unix_nano) AS first_status,
        arg_min(run.name, run.start_time_unix_nano) AS failed_name,
        arg_min(run.error_type, run.start_time_unix_nano) AS error_type,
        arg_max(run.name, run.start_time_unix_nano) AS used_name,
        count(*) FILTER (run.status = 'error') AS failed_count
    FROM parents
    JOIN runs AS run
        ON run.trace_id = parents.trace_id AND run.parent_span_id = parents.span_id
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    GROUP BY parents.row_id
),
picked AS (
    SELECT parents.row_id, children.* EXCLUDE (row_id)
    FROM parents
    LEFT JOIN children USING (row_id)
    WHERE fallback_index > 0 OR first_status = 'error'
    ORDER BY parents.start_time_unix_nano DESC, parents.trace_id, parents.span_id
    LIMIT $limit::BIGINT
),
said AS (
    -- Where the run has a name of its own, LangChain gives it to its alternatives too.
    SELECT picked.row_id, spans.attributes ->> 'otelchain.fallback.name' AS used_name
    FROM picked
    JOIN spans ON spans.rowid = picked.row_id
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    picked.failed_name,
    coalesce(nullif(picked.used_name, run.name), said.used_name, picked.used_name) AS used_name,
    coalesce(picked.failed_count, 0) AS failed_count,
    picked.error_type,
    run.duration_ms,
    run.start_time,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN said USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
