-- title: Slow steps
-- description: Every kind of step, by service, run type and name, with its percentiles in milliseconds, those first on which most time was spent. Runs that have not ended do not count. Column outlier: the slowest percent took at least ten times the median and a second.
-- why: An average hides the few runs that users wait for.
-- example: otelchain query slow-steps --run-type llm --min-runs 20 --since 7d
-- next: 'otelchain show TRACE_ID' shows the slowest one; 'otelchain query regressions' tells whether it was always so.
-- finding: Step {name} is {outlier} now and then: usually {p50_ms:duration}, but {p99_ms:duration} or more for every hundredth run.
-- weight: 25
-- param: run_type =   only steps of this type, such as llm or tool; empty for every type
-- param: min_runs = 5  fewest runs that make a step worth showing
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH steps AS (
    SELECT
        service_name,
        run_type,
        name,
        count(*) AS runs,
        quantile_disc(end_time_unix_nano - start_time_unix_nano, [0.5, 0.95, 0.99]) AS nanos,
        max(end_time_unix_nano - start_time_unix_nano) AS max_nanos,
        sum(end_time_unix_nano - start_time_unix_nano)::DOUBLE AS total_nanos,
        arg_max(row_id, end_time_unix_nano - start_time_unix_nano) AS slowest
    FROM runs
    WHERE end_time_unix_nano >= start_time_unix_nano
        AND ($run_type = '' OR run_type = $run_type)
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, run_type, name
    HAVING runs >= $min_runs::BIGINT
    ORDER BY total_nanos DESC, name, run_type, service_name
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    steps.name,
    steps.run_type,
    steps.runs,
    steps.nanos[1] / 1e6 AS p50_ms,
    steps.nanos[2] / 1e6 AS p95_ms,
    steps.nanos[3] / 1e6 AS p99_ms,
    steps.max_nanos / 1e6 AS max_ms,
    steps.total_nanos / 1e6 AS total_ms,
    if(steps.nanos[3] >= greatest(10 * steps.nanos[1], 1e9), 'slow', NULL) AS outlier,
    steps.service_name
FROM steps
JOIN runs AS run ON run.row_id = steps.slowest
ORDER BY steps.total_nanos DESC, steps.name, steps.run_type, steps.service_name;
