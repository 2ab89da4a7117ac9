-- title: Agent loops near the recursion limit
-- description: Graphs that were stopped by their recursion limit (kind stopped), or took most of the steps that it allows (kind near), most steps first. The limit itself is not recorded: give the one that your graphs run with.
-- why: An agent that needs 24 of 25 steps fails with the next harder question.
-- example: otelchain query agent-loops --recursion-limit 100 --since 7d
-- next: 'otelchain show TRACE_ID' shows what repeats; 'otelchain query tool-loops' finds the tool that it repeats for.
-- finding: Graph {name} took {steps:steps|an unknown number of steps} towards its recursion limit ({kind}).
-- weight: 70
-- param: recursion_limit = 25  steps that the graph may take
-- param: min_percent = 80  which share of them is near, in percent
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH graphs AS (
    -- Steps of one thread go on counting from turn to turn, so the first one is not always 1.
    SELECT
        trace_id,
        parent_span_id AS span_id,
        max(langgraph_step) - min(langgraph_step) + 1 AS steps
    FROM runs
    WHERE langgraph_step IS NOT NULL
        AND parent_span_id IS NOT NULL
        AND name = langgraph_node
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND ($trace_id = '' OR trace_id = $trace_id)
    GROUP BY trace_id, parent_span_id
),
stopped AS (
    SELECT trace_id, span_id
    FROM runs
    WHERE status = 'error'
        AND error_type LIKE '%GraphRecursionError'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
suspects AS (
    SELECT trace_id, span_id
    FROM graphs
    WHERE steps >= $recursion_limit::BIGINT * $min_percent::DOUBLE / 100
    UNION
    SELECT trace_id, span_id
    FROM stopped
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    if(coalesce(run.error_type LIKE '%GraphRecursionError', false), 'stopped', 'near') AS kind,
    graphs.steps,
    run.status,
    run.duration_ms,
    run.start_time,
    run.session_id,
    run.service_name
FROM suspects
JOIN runs AS run USING (trace_id, span_id)
LEFT JOIN graphs USING (trace_id, span_id)
WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
    AND ($service = '' OR run.service_name = $service)
    -- A stopped graph takes what is around it with it. Where no steps are recorded that tell which
    -- run is the graph, it is the topmost.
    AND (
        graphs.steps IS NOT NULL
        OR (
            NOT EXISTS (
                FROM stopped
                JOIN graphs USING (trace_id, span_id)
                WHERE stopped.trace_id = run.trace_id
            )
            AND NOT EXISTS (
                FROM stopped AS above
                WHERE above.trace_id = run.trace_id AND above.span_id = run.parent_span_id
            )
        )
    )
ORDER BY graphs.steps DESC NULLS LAST, run.start_time_unix_nano DESC, run.trace_id, run.span_id
LIMIT $limit::BIGINT;
