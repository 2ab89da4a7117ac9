-- title: Interrupted runs
-- description: LangGraph runs that stopped to wait for a human, newest first, with what they asked and what became of it: waiting, resumed (by which trace, after how long) or superseded (a new run of the same graph began on the thread instead).
-- why: Work that nobody answers does not fail, it only never ends. And the answer is another trace: here the two are one story, also when another process resumed it.
-- example: otelchain query interrupted-runs --waiting true --since 7d
-- next: Resume the thread of a waiting run with Command(resume=…), or tell its user that nobody has answered.
-- finding: Graph {name} waits for a human on thread {waiting_thread_id}.
-- weight: 30
-- param: waiting = false  show only runs that nobody has resumed
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH candidates AS (
    SELECT rowid AS row_id
    FROM spans
    WHERE run_status = 'interrupted'
        AND dialect = 'otelchain'
        AND run_type IN ('chain', 'agent')
        AND langgraph_node IS NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
told AS MATERIALIZED (
    -- As in echoed_queries.sql.
    SELECT
        row_id,
        spans.trace_id,
        spans.span_id,
        spans.run_name,
        spans.service_name,
        spans.start_time_unix_nano,
        spans.end_time_unix_nano,
        spans.attributes ->> 'otelchain.interrupt.checkpoint_id' AS checkpoint_id,
        spans.attributes ->> 'langgraph.thread_id' AS thread_id
    FROM candidates
    JOIN spans ON spans.rowid = candidates.row_id
),
stopped AS (
    SELECT *
    FROM told
    WHERE thread_id IS NOT NULL
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    -- All of these are shown, unless those that were answered are to be left out.
    LIMIT if($waiting::BOOLEAN, 9_223_372_036_854_775_807, $limit::BIGINT)
),
later_rows AS (
    -- Runs that may go on from them; a thread's runs have a session, though not always the same.
    SELECT rowid AS row_id
    FROM spans, (SELECT min(end_time_unix_nano) AS unix_nano FROM stopped) AS first_end
    WHERE dialect = 'otelchain'
        AND run_type IN ('chain', 'agent')
        AND langgraph_node IS NULL
        AND session_id IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano >= first_end.unix_nano
        AND run_name IN (SELECT run_name FROM stopped)
),
later AS (
    SELECT
        trace_id,
        span_id,
        run_name,
        run_status,
        start_time_unix_nano,
        links,
        facts[1] AS thread_id,
        facts[2] AS checkpoint_id,
        -- LangGraph before 1.2 does not report a resume, but nothing else has such an input.
        facts[3] IN ('Command', 'NoneType') AS goes_on,
        facts[4] IS NOT NULL AS addressed
    FROM (
        SELECT
            spans.*,
            json_extract_string(
                spans.attributes,
                [
                    'langgraph.thread_id',
                    'otelchain.resume.checkpoint_id',
                    'otelchain.input.kind',
                    'langgraph.checkpoint_id'
                ]
            ) AS facts
        FROM later_rows
        JOIN spans ON spans.rowid = later_rows.row_id
    )
),
answers AS (
    SELECT
        stopped.row_id,
        later.*,
        contains(later.links::VARCHAR, stopped.span_id)
            OR later.checkpoint_id = stopped.checkpoint_id AS by_name,
        row_number() OVER (
            PARTITION BY stopped.row_id ORDER BY later.start_time_unix_nano, later.span_id
        ) AS number
    FROM stopped
    JOIN later
        ON later.thread_id = stopped.thread_id
        AND later.run_name = stopped.run_name
        AND later.start_time_unix_nano >= stopped.end_time_unix_nano
),
resumed AS (
    -- The first run that goes on from the checkpoint or is linked; where a human edited the state
    -- in between the checkpoint is another one, and the next run of the thread goes on from it.
    SELECT row_id, arg_min(answers, number) AS answer
    FROM answers
    WHERE coalesce(by_name, false) OR (number = 1 AND goes_on AND NOT addressed)
    GROUP BY row_id
),
judged AS (
    SELECT
        stopped.row_id,
        stopped.thread_id,
        CASE
            WHEN resumed.row_id IS NOT NULL THEN 'resumed'
            WHEN stopped.row_id IN (SELECT row_id FROM answers WHERE NOT addressed) THEN 'superseded'
            ELSE 'waiting'
        END AS outcome,
        resumed.answer
    FROM stopped
    LEFT JOIN resumed USING (row_id)
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    judged.outcome,
    judged.thread_id,
    if(judged.outcome = 'waiting', judged.thread_id, NULL) AS waiting_thread_id,
    run.end_time AS waiting_since,
    spans.attributes ->> 'otelchain.interrupt.kind' AS kind,
    spans.attributes ->> 'otelchain.interrupt.value' AS question,
    judged.answer.trace_id AS resumed_by_trace_id,
    judged.answer.span_id AS resumed_by_span_id,
    judged.answer.run_status AS resumed_status,
    (judged.answer.start_time_unix_nano - run.end_time_unix_nano) / 1e6 AS waited_ms,
    run.start_time,
    run.duration_ms,
    run.session_id,
    run.service_name
FROM judged
JOIN runs AS run USING (row_id)
JOIN spans ON spans.rowid = judged.row_id
WHERE NOT $waiting::BOOLEAN OR judged.outcome = 'waiting'
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id
LIMIT $limit::BIGINT;
