-- title: Newest traces
-- description: One row for each trace, newest first: its root run, how it ended (pending: it has not, or its process was killed), and what it took. A root is a run without a parent, or whose parent is not stored.
-- why: Here you find the id of the trace that you want to see whole.
-- example: otelchain query traces --service shop --since 24h
-- next: 'otelchain show TRACE_ID' shows one of them; 'otelchain diagnose TRACE_ID' looks for what is wrong in it.
-- param: since = 1970-01-01  only traces whose root started at or after this UTC time
-- param: until = 2262-01-01  only traces whose root started before this UTC time
-- param: service =   only traces whose root belongs to this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT min(start_time_unix_nano) AS root_unix_nano
    FROM runs
    WHERE parent_span_id IS NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY trace_id
    ORDER BY root_unix_nano DESC
    LIMIT $limit::BIGINT
),
bound AS (
    -- With enough traces found, nothing older can be shown, whatever kind of root it has.
    SELECT
        if(
            count(*) = $limit::BIGINT,
            min(root_unix_nano),
            epoch_ns($since::TIMESTAMP_NS)
        ) AS unix_nano
    FROM newest
),
candidates AS (
    SELECT DISTINCT trace_id
    FROM runs, bound
    WHERE start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano >= bound.unix_nano
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
),
members AS (
    SELECT
        row_id,
        trace_id,
        span_id,
        parent_span_id,
        run_type,
        status,
        start_time_unix_nano,
        total_tokens,
        session_id,
        service_name,
        dialect
    FROM runs
    JOIN candidates USING (trace_id)
),
ranked AS (
    SELECT
        members.*,
        CASE
            WHEN members.parent_span_id IS NULL THEN 0
            WHEN parent.span_id IS NULL THEN 1
            ELSE 2  -- the root of a trace only when its parents run in a circle
        END AS distance
    FROM members
    LEFT JOIN (SELECT DISTINCT trace_id, span_id FROM members) AS parent
        ON parent.trace_id = members.trace_id AND parent.span_id = members.parent_span_id
),
roots AS (
    SELECT *
    FROM ranked
    WHERE start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND (
            distance < 2
            OR trace_id NOT IN (SELECT trace_id FROM ranked WHERE distance < 2)
        )
    QUALIFY row_number() OVER (
        PARTITION BY trace_id ORDER BY distance, start_time_unix_nano, span_id
    ) = 1
),
picked AS (
    SELECT *
    FROM roots
    WHERE $service = '' OR service_name = $service
    ORDER BY start_time_unix_nano DESC, trace_id
    LIMIT $limit::BIGINT
),
repeated AS (
    -- What a provider's client has written, instrumented too, inside the run of a model.
    SELECT own.row_id
    FROM members AS own
    JOIN picked USING (trace_id)
    JOIN members AS parent
        ON parent.trace_id = own.trace_id AND parent.span_id = own.parent_span_id
    WHERE own.run_type = 'llm'
        AND own.dialect <> 'otelchain'
        AND parent.run_type = 'llm'
        AND parent.total_tokens IS NOT NULL
),
totals AS (
    SELECT
        trace_id,
        count(*) AS runs,
        count(*) FILTER (members.status = 'error') AS errors,
        -- Agents may repeat the sum of their models' tokens.
        (
            sum(members.total_tokens) FILTER (
                members.run_type = 'llm' AND members.row_id NOT IN (SELECT row_id FROM repeated)
            )
        )::BIGINT AS total_tokens,
        min(members.session_id) AS session_id
    FROM members
    JOIN picked USING (trace_id)
    GROUP BY trace_id
)
SELECT
    root.trace_id,
    root.span_id,
    root.name,
    root.status,
    root.start_time,
    root.duration_ms,
    totals.runs,
    totals.errors,
    totals.total_tokens,
    coalesce(root.session_id, totals.session_id) AS session_id,
    root.service_name
FROM picked
JOIN runs AS root USING (row_id)
JOIN totals ON totals.trace_id = root.trace_id
ORDER BY root.start_time_unix_nano DESC, root.trace_id;
