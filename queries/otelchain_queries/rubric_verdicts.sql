-- title: Rubric verdicts
-- description: Grading runs of deepagents' RubricMiddleware, newest first: how many evaluations it took, the last verdict, and how many criteria passed in it. Only the newest evaluations are examined.
-- why: The verdict says whether the agent did what was asked; the number of evaluations what that cost.
-- example: otelchain query rubric-verdicts --since 7d
-- next: 'otelchain query rubric-criteria' counts the criteria that fail most; 'otelchain show TRACE_ID' shows the round.
-- finding: A rubric was not met after {evaluations:evaluations} ({trouble}): {criteria_passed|?} of {criteria_total|?} criteria passed.
-- weight: 50
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
evaluations AS (
    SELECT
        newest.row_id,
        spans.trace_id,
        spans.span_id,
        spans.service_name,
        spans.start_time_unix_nano,
        spans.rubric_result,
        coalesce(
            spans.attributes ->> 'otelchain.rubric.grading_run_id',
            spans.trace_id || spans.span_id
        ) AS grading_run_id,
        (spans.attributes ->> 'otelchain.rubric.iteration')::BIGINT AS iteration,
        spans.attributes ->> 'otelchain.rubric.status' AS loop_status,
        (spans.attributes ->> 'otelchain.rubric.criteria_total')::BIGINT AS criteria_total,
        (spans.attributes ->> 'otelchain.rubric.criteria_passed')::BIGINT AS criteria_passed,
        (spans.attributes ->> 'otelchain.rubric.unverified')::BOOLEAN AS unverified
    FROM newest
    JOIN spans ON spans.rowid = newest.row_id
),
gradings AS (
    SELECT
        grading_run_id,
        service_name,
        count(*) AS evaluations,
        max_by(evaluations, struct_pack(start_time_unix_nano, iteration, span_id)) AS last
    FROM evaluations
    GROUP BY grading_run_id, service_name
),
roots AS (
    -- As in first_causes.sql.
    SELECT
        trace_id,
        coalesce(
            arg_min(name, start_time_unix_nano) FILTER (parent_span_id IS NULL),
            arg_min(name, start_time_unix_nano)
        ) AS name
    FROM runs
    WHERE trace_id IN (SELECT last.trace_id FROM gradings)
    GROUP BY trace_id
)
SELECT
    last.trace_id,
    last.span_id,
    roots.name,
    evaluations,
    last.rubric_result AS verdict,
    last.loop_status,
    last.criteria_passed,
    last.criteria_total,
    last.unverified,
    if(last.rubric_result <> 'satisfied' OR last.unverified, last.rubric_result, NULL) AS trouble,
    grading_run_id,
    make_timestamp_ns(last.start_time_unix_nano) AS newest_time,
    gradings.service_name
FROM gradings
LEFT JOIN roots ON roots.trace_id = last.trace_id
ORDER BY last.start_time_unix_nano DESC, last.trace_id, last.span_id
LIMIT $limit::BIGINT;
