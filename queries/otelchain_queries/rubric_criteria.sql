-- title: Rubric criteria that fail most
-- description: The criteria of deepagents' RubricMiddleware, those that failed most often first, with how many evaluations they were in. Their names are content: without content capture there are none. Only the newest evaluations are examined.
-- why: The criterion that fails most is the sentence of the prompt to work on.
-- example: otelchain query rubric-criteria --since 30d
-- next: 'otelchain show TRACE_ID' shows the newest failure with the grader's reason.
-- param: examine = 1000  how many of the newest evaluations to look at
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT row_id
    FROM runs
    WHERE rubric_result IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $examine::BIGINT
),
evaluations AS MATERIALIZED (
    -- As in echoed_queries.sql.
    SELECT
        spans.trace_id,
        spans.span_id,
        spans.service_name,
        spans.start_time_unix_nano,
        spans.attributes ->> 'otelchain.rubric.criteria' AS criteria
    FROM newest
    JOIN spans ON spans.rowid = newest.row_id
),
criteria AS (
    SELECT
        evaluation.* EXCLUDE (criteria),
        criterion.value ->> '$.name' AS name,
        criterion.value ->> '$.passed' = 'false' AS has_failed
    FROM (SELECT * FROM evaluations WHERE json_valid(criteria)) AS evaluation,
        json_each(evaluation.criteria) AS criterion
)
SELECT
    arg_max(trace_id, start_time_unix_nano) FILTER (has_failed) AS trace_id,
    arg_max(span_id, start_time_unix_nano) FILTER (has_failed) AS span_id,
    name,
    count(*) AS evaluations,
    count(*) FILTER (has_failed) AS failed,
    100.0 * failed / evaluations AS failed_percent,
    make_timestamp_ns(max(start_time_unix_nano) FILTER (has_failed)) AS newest_failure_time,
    service_name
FROM criteria
WHERE name IS NOT NULL
GROUP BY name, service_name
HAVING failed > 0
ORDER BY failed DESC, failed_percent DESC, name, service_name
LIMIT $limit::BIGINT;
