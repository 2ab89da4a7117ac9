-- title: Retriever queries that echo their caller
-- description: Retriever runs whose query repeats the user's role or other run metadata (echo metadata), the user's or session's id (echo id), or a chat's role marks such as 'Human:' (echo role), newest first. Only the newest retriever runs are examined.
-- why: Words about who asks pull the search towards documents about such people, away from the answer.
-- example: otelchain query echoed-queries --examine 1000 --since 24h
-- next: 'otelchain show TRACE_ID' shows where the query was put together; give the retriever the question alone, and use roles as filters.
-- finding: Retriever {name} was asked with a query that repeats its caller ({echo}).
-- weight: 30
-- param: examine = 5000  how many of the newest retriever runs to look at
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT row_id
    FROM runs
    WHERE run_type = 'retriever'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $examine::BIGINT
),
asked AS MATERIALIZED (
    -- Else the conditions on the query would be tried on every run before the newest are picked.
    SELECT row_id, lower(inputs) AS query, metadata, user_id, session_id
    FROM newest
    JOIN runs USING (row_id)
),
echoes AS (
    SELECT row_id, 'metadata' AS echo, entry.key AS metadata_key
    FROM asked, json_each(asked.metadata) AS entry
    WHERE entry.type = 'VARCHAR'
        -- Short values are in every text; LangChain's own keys say nothing about the user.
        AND len(entry.value ->> '$') >= 4
        AND NOT regexp_matches(
            entry.key,
            '^(ls_|lc_|langgraph_|checkpoint|rubric_|revision|(thread|run|task|graph|assistant)_id$)'
        )
        AND contains(query, lower(entry.value ->> '$'))
    UNION ALL
    SELECT row_id, 'id', NULL
    FROM asked
    WHERE (len(user_id) >= 4 AND contains(query, lower(user_id)))
        OR (len(session_id) >= 4 AND contains(query, lower(session_id)))
    UNION ALL
    SELECT row_id, 'role', NULL
    FROM asked
    WHERE regexp_matches(query, '(^|\n)\s*(human|user|system|assistant|ai)\s*:')
),
picked AS (
    SELECT
        row_id,
        list(DISTINCT echo ORDER BY echo) AS echoes,
        list(DISTINCT metadata_key ORDER BY metadata_key) FILTER (metadata_key IS NOT NULL)
            AS metadata_keys
    FROM echoes
    GROUP BY row_id
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    array_to_string(picked.echoes, ', ') AS echo,
    picked.metadata_keys,
    run.duration_ms,
    run.start_time,
    run.document_count,
    run.service_name,
    run.inputs AS query_text
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id
LIMIT $limit::BIGINT;
