-- title: Tool loops
-- description: Tools that were called many times in one trace, most calls first, with how many different arguments they got and how many calls failed. Arguments are NULL where they are not recorded.
-- why: An agent that calls a tool again and again has lost its way, or the tool does not answer what it is asked.
-- example: otelchain query tool-loops --min-calls 20 --since 7d
-- next: 'otelchain show TRACE_ID' shows the loop; few different arguments mean a stuck agent, many a tool that needs a batch form.
-- finding: Tool {name} was called {calls:times} in one trace (failed calls: {failed_calls}).
-- weight: 50
-- param: min_calls = 8  fewest calls to show
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
SELECT
    trace_id,
    arg_max(span_id, start_time_unix_nano) AS span_id,
    name,
    count(*) AS calls,
    nullif(count(DISTINCT inputs_hash), 0) AS different_arguments,
    count(*) FILTER (status IN ('error', 'handled_error')) AS failed_calls,
    sum(end_time_unix_nano - start_time_unix_nano) / 1e6 AS total_ms,
    make_timestamp_ns(max(start_time_unix_nano)) AS newest_time,
    service_name
FROM runs
WHERE run_type = 'tool'
    AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
    AND ($service = '' OR service_name = $service)
    AND ($trace_id = '' OR trace_id = $trace_id)
GROUP BY trace_id, service_name, name
HAVING calls >= $min_calls::BIGINT
ORDER BY calls DESC, newest_time DESC, trace_id, name
LIMIT $limit::BIGINT;
