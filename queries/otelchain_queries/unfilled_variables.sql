-- title: Unfilled template variables
-- description: Prompts that a template left holes in, newest first. Kind missing: the prompt run failed because a variable was not given. Kind literal: a model got a text in which a variable's name still stands in braces; which ones, says the column variables. Only the newest prompts and model runs are examined.
-- why: A model answers a question with a hole in it too, only wrongly.
-- example: otelchain query unfilled-variables --examine 1000 --since 24h
-- next: 'otelchain show TRACE_ID --full' shows the prompt; look for a template that was never formatted, or formatted twice.
-- finding: The prompt of {name} has a hole: a variable of its template is {kind}.
-- weight: 65
-- param: examine = 5000  how many of the newest prompt and model runs to look at
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT row_id
    FROM runs
    WHERE run_type IN ('prompt', 'llm')
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $examine::BIGINT
),
found AS MATERIALIZED (
    -- Else the conditions below would be tried on every run before the newest are picked.
    SELECT
        row_id,
        if(
            run_type = 'llm',
            list_distinct(regexp_extract_all(inputs, '\{\{?\s*([A-Za-z_]\w*)\s*\}', 1)),
            NULL
        ) AS variables,
        run_type = 'prompt'
            AND status = 'error'
            AND contains(lower(coalesce(error, '')), 'missing variables') AS is_missing
    FROM newest
    JOIN runs USING (row_id)
),
picked AS (
    SELECT * FROM found WHERE is_missing OR len(variables) > 0
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    if(picked.is_missing, 'missing', 'literal') AS kind,
    list_sort(picked.variables) AS variables,
    run.status,
    run.duration_ms,
    run.start_time,
    run.error_type,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id
LIMIT $limit::BIGINT;
