-- title: Regressions
-- description: Steps that became slower, fail more often or use more tokens, worst first: after a moment against before it (by time; 24 hours before the newest run unless --split says otherwise), or in the newest version of a service against the one before (by version, from service.version). Only steps with enough runs on both sides.
-- why: A new prompt, model or release changes numbers that no single trace shows.
-- example: otelchain query regressions --by version --min-runs 50
-- next: 'otelchain query slow-steps --since TIME' and 'first-causes --since TIME' show what is different now; the trace is the newest of the new side.
-- finding: Step {name} {change} than before: p95 {old_p95_ms:duration} then, {new_p95_ms:duration} now; errors {old_error_percent:number} % then, {new_error_percent:number} % now.
-- weight: 70
-- param: by = time  what to compare: time or version
-- param: split = 1970-01-01  with by time: the UTC time where the new side begins
-- param: times = 1.5  how many times as slow, or as many tokens, is worse
-- param: error_points = 5  how many percentage points more errors are worse
-- param: min_runs = 20  fewest runs on each side
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH bounds AS (
    SELECT
        if(
            $split::TIMESTAMP_NS = '1970-01-01'::TIMESTAMP_NS,
            max(start_time_unix_nano) - 86_400_000_000_000,
            epoch_ns($split::TIMESTAMP_NS)
        ) AS split_unix_nano
    FROM runs
),
versions AS (
    SELECT
        service_name,
        service_version,
        row_number() OVER (
            PARTITION BY service_name ORDER BY min(start_time_unix_nano) DESC, service_version DESC
        ) AS age
    FROM runs
    WHERE $by = 'version'
        AND service_version IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, service_version
    QUALIFY age <= 2
),
sided AS (
    SELECT
        runs.service_name,
        runs.run_type,
        runs.name,
        runs.status,
        runs.end_time_unix_nano - runs.start_time_unix_nano AS nanos,
        runs.total_tokens,
        runs.start_time_unix_nano,
        runs.trace_id,
        CASE $by
            WHEN 'time' THEN runs.start_time_unix_nano >= bounds.split_unix_nano
            WHEN 'version' THEN versions.age = 1
            ELSE error('by must be time or version, not ''' || $by || '''')
        END AS is_new,
        if($by = 'version', runs.service_version, NULL) AS version
    FROM runs
    CROSS JOIN bounds
    LEFT JOIN versions
        ON versions.service_name IS NOT DISTINCT FROM runs.service_name
        AND versions.service_version = runs.service_version
    WHERE runs.status <> 'pending'
        AND runs.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND runs.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR runs.service_name = $service)
),
steps AS (
    SELECT
        service_name,
        run_type,
        name,
        count(*) FILTER (NOT is_new) AS old_runs,
        count(*) FILTER (is_new) AS new_runs,
        quantile_disc(nanos, 0.95) FILTER (NOT is_new) / 1e6 AS old_p95_ms,
        quantile_disc(nanos, 0.95) FILTER (is_new) / 1e6 AS new_p95_ms,
        100.0 * count(*) FILTER (NOT is_new AND status = 'error') / old_runs AS old_error_percent,
        100.0 * count(*) FILTER (is_new AND status = 'error') / new_runs AS new_error_percent,
        avg(total_tokens) FILTER (NOT is_new) AS old_tokens,
        avg(total_tokens) FILTER (is_new) AS new_tokens,
        any_value(version) FILTER (NOT is_new) AS old_version,
        any_value(version) FILTER (is_new) AS new_version,
        arg_max(trace_id, start_time_unix_nano) FILTER (is_new) AS trace_id
    FROM sided
    WHERE is_new IS NOT NULL
    GROUP BY service_name, run_type, name
    HAVING least(old_runs, new_runs) >= greatest(1, $min_runs::BIGINT)
),
judged AS (
    SELECT
        *,
        new_error_percent >= old_error_percent + $error_points::DOUBLE AS fails_more,
        new_p95_ms >= $times::DOUBLE * old_p95_ms AND new_p95_ms >= old_p95_ms + 1 AS is_slower,
        coalesce(run_type = 'llm' AND new_tokens >= $times::DOUBLE * old_tokens, false)
            AS uses_more
    FROM steps
)
SELECT
    trace_id,
    name,
    run_type,
    array_to_string(
        list_filter(
            [
                if(fails_more, 'fails more often', NULL),
                if(is_slower, 'is slower', NULL),
                if(uses_more, 'uses more tokens', NULL)
            ],
            lambda change: change IS NOT NULL
        ),
        ', '
    ) AS change,
    old_runs,
    new_runs,
    old_error_percent,
    new_error_percent,
    old_p95_ms,
    new_p95_ms,
    old_tokens,
    new_tokens,
    old_version,
    new_version,
    service_name
FROM judged
WHERE fails_more OR is_slower OR uses_more
ORDER BY
    new_error_percent - old_error_percent DESC,
    new_p95_ms / greatest(old_p95_ms, 0.001) DESC,
    name,
    run_type,
    service_name
LIMIT $limit::BIGINT;
