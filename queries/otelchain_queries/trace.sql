-- title: One trace
-- description: All runs of one trace in the order of its tree: every run after its parent, siblings by start time. Runs whose parent is not stored, and runs that are their own ancestors, begin a tree of their own and say so in the column detached. resumes_trace_id is the trace with the interrupted run that a run goes on from. A pending run has not ended, or its process was killed.
-- why: The whole story of one request, step by step.
-- example: otelchain query trace --trace-id 4bf92f35 --format json
-- next: 'otelchain show TRACE_ID' draws the same as a tree.
-- param: trace_id = last  a trace id, the beginning of one, or last for the newest trace
-- param: since = 1970-01-01  look for the trace among runs that started at or after this UTC time
-- param: until = 2262-01-01  look for the trace among runs that started before this UTC time
-- param: service =   look for the trace among runs of this service; empty for every service
-- param: limit = 10000  number of rows to show
WITH newest_root AS (
    SELECT max(start_time_unix_nano) AS unix_nano
    FROM runs
    WHERE $trace_id = 'last'
        AND parent_span_id IS NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
candidates AS (
    -- A trace newer than the newest root has all its runs after it.
    SELECT DISTINCT trace_id
    FROM runs, newest_root
    WHERE start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND if(
            $trace_id = 'last',
            start_time_unix_nano >= coalesce(newest_root.unix_nano, start_time_unix_nano),
            starts_with(trace_id, lower(replace($trace_id, '-', '')))
        )
),
some_candidates AS (
    SELECT trace_id FROM candidates ORDER BY trace_id LIMIT 5
),
chosen AS (
    SELECT
        if(
            $trace_id <> 'last' AND count(*) OVER () > 1,
            error(
                'trace_id ''' || $trace_id || ''' is the beginning of several ids: '
                || (SELECT string_agg(trace_id, ', ' ORDER BY trace_id) FROM some_candidates)
                || if((SELECT count(*) FROM candidates) > 5, ', and more', '')
                || '; give more digits'
            ),
            trace_id
        ) AS trace_id
    FROM runs
    JOIN candidates USING (trace_id)
    GROUP BY trace_id
    ORDER BY min(start_time_unix_nano) DESC, trace_id
    LIMIT 1
),
numbered AS (
    -- A number for each run, in the order of siblings; paths of numbers sort into the tree's order.
    SELECT
        row_id,
        span_id,
        parent_span_id,
        row_number() OVER (ORDER BY start_time_unix_nano, end_time_unix_nano, span_id) AS number
    FROM runs
    JOIN chosen USING (trace_id)
),
nodes AS (
    SELECT numbered.*, parent.number AS parent_number
    FROM numbered
    LEFT JOIN (SELECT span_id, min(number) AS number FROM numbered GROUP BY span_id) AS parent
        ON parent.span_id = numbered.parent_span_id
),
tree AS (
    WITH RECURSIVE walk AS (
        SELECT
            number,
            [number] AS path,
            if(parent_span_id IS NULL, NULL, 'parent not stored') AS detached
        FROM nodes
        WHERE parent_number IS NULL
        UNION ALL
        SELECT nodes.number, list_append(walk.path, nodes.number), NULL
        FROM walk
        JOIN nodes ON nodes.parent_number = walk.number
    )
    SELECT * FROM walk
),
stranded AS (
    SELECT number, parent_number FROM nodes WHERE number NOT IN (SELECT number FROM tree)
),
circles AS (
    -- The first run of each circle becomes its root. Every step doubles how far up a run looks, so
    -- after 20 steps it has seen a million ancestors: whatever it has reached is in a circle, and
    -- the lowest number that can be seen from there is the circle's first run.
    WITH RECURSIVE climb AS (
        SELECT number, parent_number AS reached, parent_number AS lowest, 0 AS step FROM stranded
        UNION ALL
        SELECT near.number, far.reached, least(near.lowest, far.lowest), near.step + 1
        FROM climb AS near
        JOIN climb AS far ON far.number = near.reached
        WHERE near.step < 20
    )
    SELECT DISTINCT far.lowest AS number
    FROM climb AS near
    JOIN climb AS far ON far.number = near.reached
    WHERE near.step = 20 AND far.step = 20
),
circle_tree AS (
    WITH RECURSIVE walk AS (
        SELECT number, [number] AS path, 'its own ancestor' AS detached FROM circles
        UNION ALL
        SELECT nodes.number, list_append(walk.path, nodes.number), NULL
        FROM walk
        JOIN nodes ON nodes.parent_number = walk.number
        WHERE nodes.number NOT IN (SELECT number FROM circles)
    )
    SELECT * FROM walk
),
resuming AS (
    -- The interrupted run that a run goes on from, as the handler has linked it.
    SELECT
        row_id,
        list_filter(
            from_json(links, '[{"trace_id": "VARCHAR", "attributes": "JSON"}]'),
            lambda link: link.attributes ->> 'otelchain.link.kind' = 'interrupted_run'
        )[1].trace_id AS trace_id
    FROM (
        SELECT rowid AS row_id, trace_id, links FROM spans
        UNION ALL
        SELECT row_id, trace_id, links FROM pending_spans
    )
    SEMI JOIN chosen USING (trace_id)
    WHERE contains(links::VARCHAR, 'interrupted_run')
),
ordered AS (
    SELECT nodes.*, whole.path, whole.detached, len(whole.path) - 1 AS depth
    FROM (SELECT * FROM tree UNION ALL SELECT * FROM circle_tree) AS whole
    JOIN nodes USING (number)
    ORDER BY whole.path
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.parent_span_id,
    ordered.depth,
    run.name,
    run.run_type,
    run.status,
    run.start_time,
    run.end_time,
    run.duration_ms,
    run.model,
    run.input_tokens,
    run.output_tokens,
    run.total_tokens,
    run.time_to_first_token_ms,
    run.document_count,
    run.retry_attempt,
    run.error_type,
    run.error,
    run.session_id,
    run.service_name,
    run.langgraph_node,
    run.langgraph_step,
    ordered.detached,
    resuming.trace_id AS resumes_trace_id,
    run.inputs,
    run.outputs
FROM ordered
JOIN runs AS run USING (row_id)
LEFT JOIN resuming ON resuming.row_id = run.row_id
ORDER BY ordered.path;
