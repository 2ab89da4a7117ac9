-- title: Trajectories that differ
-- description: The ways that runs of a LangGraph graph took through its nodes, other than the most usual one, most frequent first. Nodes of one superstep stand together with '+', each attempt of a node once; a run that resumes another is a way of its own. complete is false where a step is missing, as with a cached node.
-- why: A rare way through the graph is a rare question, or a wrong turn.
-- example: otelchain query differing-trajectories --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest run that went this way.
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH graphs AS (
    SELECT trace_id, span_id, service_name, name, status, start_time_unix_nano
    FROM runs
    WHERE parent_span_id IS NULL
        AND langgraph_node IS NULL
        AND status <> 'pending'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
tasks AS (
    -- Below a top-level graph, the topmost run of each task: it is named like its node.
    SELECT DISTINCT
        graphs.trace_id,
        graphs.span_id,
        task.langgraph_step AS step,
        task.langgraph_checkpoint_ns,
        task.name
    FROM runs AS task
    JOIN graphs ON graphs.trace_id = task.trace_id AND graphs.span_id = task.parent_span_id
    WHERE task.name = task.langgraph_node
        AND task.langgraph_step IS NOT NULL
        AND task.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
),
supersteps AS (
    SELECT trace_id, span_id, step, string_agg(name, '+' ORDER BY name) AS names
    FROM tasks
    GROUP BY trace_id, span_id, step
),
ways AS (
    SELECT
        trace_id,
        span_id,
        string_agg(names, ' > ' ORDER BY step) AS way,
        max(step) - min(step) + 1 = count(*) AS complete
    FROM supersteps
    GROUP BY trace_id, span_id
),
trajectories AS (
    SELECT
        graphs.service_name,
        graphs.name,
        ways.way || if(graphs.status = 'interrupted', ' > (interrupted)', '') AS trajectory,
        bool_and(ways.complete) AS complete,
        count(*) AS traces,
        count(*) FILTER (graphs.status = 'error') AS failed_traces,
        arg_max(
            struct_pack(trace_id := graphs.trace_id, span_id := graphs.span_id),
            graphs.start_time_unix_nano
        ) AS newest,
        max(graphs.start_time_unix_nano) AS newest_unix_nano
    FROM graphs
    JOIN ways USING (trace_id, span_id)
    GROUP BY graphs.service_name, graphs.name, trajectory
),
ranked AS (
    SELECT
        *,
        row_number() OVER (graph ORDER BY traces DESC, trajectory) AS place,
        first_value(trajectory) OVER (graph ORDER BY traces DESC, trajectory) AS usual_trajectory,
        sum(traces) OVER graph AS all_traces
    FROM trajectories
    WINDOW graph AS (PARTITION BY service_name, name)
)
SELECT
    newest.trace_id,
    newest.span_id,
    name,
    trajectory,
    usual_trajectory,
    traces,
    100.0 * traces / all_traces AS percent,
    failed_traces,
    complete,
    make_timestamp_ns(newest_unix_nano) AS newest_time,
    service_name
FROM ranked
WHERE place > 1
ORDER BY traces DESC, name, trajectory, service_name
LIMIT $limit::BIGINT;
