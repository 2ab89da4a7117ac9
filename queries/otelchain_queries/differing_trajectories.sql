-- title: Trajectories that differ
-- description: The ways that runs of a LangGraph graph took through its nodes, other than the most usual one, most frequent first. Nodes of one superstep stand together with '+', each attempt of a node once; a run that resumes another is a way of its own. complete is false where a step is missing, as with a cached node.
-- why: A rare way through the graph is a rare question, or a wrong turn.
-- example: otelchain query differing-trajectories --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest run that went this way.
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH ways AS (
    -- The topmost run of each task, below the graph: it is named like its node.
    SELECT
        -- Numbers are compared faster than ids. Two of a million graphs share one with a
        -- probability of 3 in a hundred million.
        hash(trace_id, parent_span_id) AS graph,
        list_sort(
            list_distinct(
                list(
                    struct_pack(
                        step := langgraph_step,
                        name := name,
                        task := langgraph_checkpoint_ns
                    )
                )
            )
        ) AS tasks
    FROM runs
    WHERE name = langgraph_node
        AND langgraph_step IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    GROUP BY graph
),
graphs AS (
    SELECT
        service_name,
        name,
        status,
        struct_pack(trace_id, span_id, start_time_unix_nano) AS run,
        tasks
    FROM runs
    JOIN ways ON ways.graph = hash(trace_id, span_id)
    -- A graph may run below the span of a server, but one inside a node is a part of another's way.
    WHERE langgraph_node IS NULL
        AND status <> 'pending'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
counted AS (
    -- Most graphs go a few ways, so each way is put into words once. Steps of one thread go on
    -- counting from turn to turn.
    SELECT
        service_name,
        name,
        status = 'interrupted' AS is_interrupted,
        list_transform(
            tasks,
            lambda task: struct_pack(step := task.step - tasks[1].step, name := task.name)
        ) AS way,
        count(*) AS traces,
        count(*) FILTER (status = 'error') AS failed_traces,
        max_by(run, run.start_time_unix_nano) AS newest
    FROM graphs
    GROUP BY service_name, name, is_interrupted, way
),
supersteps AS (
    SELECT way, task.step, string_agg(task.name, '+' ORDER BY task.name) AS names
    FROM (SELECT way, unnest(way) AS task FROM (SELECT DISTINCT way FROM counted))
    GROUP BY way, task.step
),
words AS (
    SELECT
        way,
        string_agg(names, ' > ' ORDER BY step) AS text,
        max(step) + 1 = count(*) AS complete
    FROM supersteps
    GROUP BY way
),
trajectories AS (
    SELECT
        service_name,
        name,
        text || if(is_interrupted, ' > (interrupted)', '') AS trajectory,
        bool_and(complete) AS complete,
        sum(traces)::BIGINT AS traces,
        sum(failed_traces)::BIGINT AS failed_traces,
        max_by(newest, newest.start_time_unix_nano) AS newest
    FROM counted
    JOIN words USING (way)
    GROUP BY service_name, name, trajectory
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
    make_timestamp_ns(newest.start_time_unix_nano) AS newest_time,
    service_name
FROM ranked
WHERE place > 1
ORDER BY traces DESC, name, trajectory, service_name
LIMIT $limit::BIGINT;
