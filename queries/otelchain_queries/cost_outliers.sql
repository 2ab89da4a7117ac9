-- title: Cost outliers
-- description: Model runs that cost many times the median of their model in the same service, most expensive first. Runs without a known cost do not count, and models with few runs have no usual cost.
-- why: A prompt that swallowed a whole file costs as much as a hundred good ones.
-- example: otelchain query cost-outliers --times 20 --since 7d
-- next: 'otelchain show TRACE_ID' shows what was in the prompt.
-- finding: A call of {model|an unnamed model} cost {cost_usd:usd}, {times:number} times what is usual.
-- weight: 40
-- param: times = 10  how many times the median a run must cost
-- param: min_runs = 20  fewest priced runs of a model that make its median usual
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH priced AS (
    SELECT row_id, service_name, model, cost_usd, start_time_unix_nano, trace_id
    FROM runs
    WHERE run_type = 'llm'
        AND cost_usd > 0
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
usual AS (
    SELECT service_name, model, count(*) AS runs, median(cost_usd) AS median_usd
    FROM priced
    GROUP BY service_name, model
    HAVING runs >= $min_runs::BIGINT
),
picked AS (
    SELECT row_id, usual.median_usd, cost_usd / usual.median_usd AS times
    FROM priced
    JOIN usual
        ON usual.service_name IS NOT DISTINCT FROM priced.service_name
        AND usual.model IS NOT DISTINCT FROM priced.model
    WHERE cost_usd >= $times::DOUBLE * usual.median_usd
    ORDER BY cost_usd DESC, start_time_unix_nano DESC, row_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.model,
    run.cost_usd,
    picked.median_usd,
    picked.times,
    run.input_tokens,
    run.output_tokens,
    run.duration_ms,
    run.start_time,
    run.session_id,
    run.user_id,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.cost_usd DESC, run.start_time_unix_nano DESC, picked.row_id;
