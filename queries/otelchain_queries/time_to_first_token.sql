-- title: Time to first token
-- description: How long models took to their first token, by service and model, slowest first. Only runs that streamed say it. Column slow: the 95th percentile is at the limit or above.
-- why: While nothing appears on the screen, the user waits.
-- example: otelchain query time-to-first-token --slow 2s --since 24h
-- next: 'otelchain show TRACE_ID' shows the slowest one; a long prompt, a cold model or a far-away region are the usual reasons.
-- finding: Model {model|without a name} is {slow} to answer: one call in twenty waits {p95_ms:duration} or longer for the first token.
-- weight: 30
-- param: slow = 3s  from which 95th percentile on a model is called slow: 500ms, 3s
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH models AS (
    SELECT
        service_name,
        model,
        count(*) AS runs,
        quantile_disc(time_to_first_token_ms, [0.5, 0.95]) AS quantiles,
        max(time_to_first_token_ms) AS max_ms,
        arg_max(row_id, time_to_first_token_ms) AS slowest
    FROM runs
    WHERE run_type = 'llm'
        AND time_to_first_token_ms IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, model
    ORDER BY quantiles[2] DESC, model, service_name
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    models.model,
    models.runs,
    models.quantiles[1] AS p50_ms,
    models.quantiles[2] AS p95_ms,
    models.max_ms,
    if(models.quantiles[2] >= epoch_us($slow::INTERVAL) / 1e3, 'slow', NULL) AS slow,
    models.service_name
FROM models
JOIN runs AS run ON run.row_id = models.slowest
ORDER BY models.quantiles[2] DESC, models.model, models.service_name;
