-- title: Retry storms
-- description: Steps that were tried many times below one parent, by with_retry or by a RetryPolicy of LangGraph, most attempts first, with the time that the failed attempts took and how the last one ended.
-- why: Retries hide an outage from the user, and make it worse for whoever is overloaded.
-- example: otelchain query retry-storms --min-attempts 5 --since 24h
-- next: 'otelchain show TRACE_ID' shows the attempts; 'otelchain query first-causes' counts the errors behind them.
-- finding: Step {name} was tried {attempts:times}; the last attempt ended as {last_status}, and {lost_ms:duration} went into failed ones.
-- weight: 45
-- param: min_attempts = 3  fewest attempts to show
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH families AS (
    SELECT
        trace_id,
        parent_span_id,
        name,
        if(name = langgraph_node, langgraph_checkpoint_ns, NULL) AS task
    FROM runs
    WHERE retry_attempt >= greatest(2, $min_attempts::BIGINT)
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    UNION
    -- Attempts of a LangGraph node share step and namespace, and are not always numbered.
    SELECT trace_id, parent_span_id, name, langgraph_checkpoint_ns AS task
    FROM runs
    WHERE status = 'error'
        AND name = langgraph_node
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    GROUP BY trace_id, parent_span_id, name, langgraph_checkpoint_ns, langgraph_step
    HAVING count(*) >= greatest(1, $min_attempts::BIGINT - 1)
),
storms AS (
    SELECT
        trace_id,
        arg_max(span_id, start_time_unix_nano) AS span_id,
        name,
        parent_span_id,
        count(*) AS attempts,
        count(*) FILTER (status = 'error') AS failed_attempts,
        arg_max(status, start_time_unix_nano) AS last_status,
        coalesce(
            sum((end_time_unix_nano - start_time_unix_nano) / 1e6) FILTER (status = 'error'),
            0
        ) AS lost_ms,
        arg_min(error_type, start_time_unix_nano) FILTER (status = 'error') AS error_type,
        min(start_time_unix_nano) AS start_unix_nano,
        service_name
    FROM runs
    JOIN families USING (trace_id, parent_span_id, name)
    WHERE (families.task IS NULL OR families.task = runs.langgraph_checkpoint_ns)
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    GROUP BY trace_id, parent_span_id, name, families.task, service_name
    HAVING attempts >= $min_attempts::BIGINT
    ORDER BY attempts DESC, start_unix_nano DESC, trace_id, name
    LIMIT $limit::BIGINT
),
parents AS (
    SELECT storms.trace_id, storms.parent_span_id, any_value(run.name) AS name
    FROM storms
    JOIN runs AS run
        ON run.trace_id = storms.trace_id AND run.span_id = storms.parent_span_id
    GROUP BY storms.trace_id, storms.parent_span_id
)
SELECT
    storms.trace_id,
    storms.span_id,
    storms.name,
    storms.attempts,
    storms.failed_attempts,
    storms.last_status,
    storms.lost_ms,
    make_timestamp_ns(storms.start_unix_nano) AS start_time,
    storms.error_type,
    parents.name AS parent_name,
    storms.service_name
FROM storms
LEFT JOIN parents
    ON parents.trace_id = storms.trace_id AND parents.parent_span_id = storms.parent_span_id
ORDER BY storms.attempts DESC, storms.start_unix_nano DESC, storms.trace_id, storms.name;
