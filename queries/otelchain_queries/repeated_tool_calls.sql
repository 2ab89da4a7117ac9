-- title: Tools called again with the same arguments
-- description: Tool calls of one trace with the same arguments, of which more than one ended well, most calls first. Attempts after a failure are no repetition, and the order of the arguments does not matter.
-- why: The same question gets the same answer: either the agent did not read it, or it is paying twice.
-- example: otelchain query repeated-tool-calls --min-calls 3 --since 7d
-- next: 'otelchain show TRACE_ID' shows what the agent did between the calls; cache the tool, or tell the model what it has asked already.
-- finding: Tool {name} was called {calls:times} in one trace with the same arguments.
-- weight: 40
-- param: min_calls = 2  fewest calls to show
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH calls AS (
    SELECT
        trace_id,
        service_name,
        name,
        inputs_hash,
        count(*) AS calls,
        arg_min(row_id, start_time_unix_nano) AS first_row,
        arg_max(span_id, start_time_unix_nano) AS span_id,
        max(start_time_unix_nano) AS newest_unix_nano,
        sum(end_time_unix_nano - start_time_unix_nano) / 1e6 AS total_ms
    FROM runs
    WHERE run_type = 'tool'
        AND status = 'ok'
        AND inputs_hash IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    GROUP BY trace_id, service_name, name, inputs_hash
    HAVING calls >= greatest(2, $min_calls::BIGINT)
    ORDER BY calls DESC, newest_unix_nano DESC, trace_id, name, inputs_hash
    LIMIT $limit::BIGINT
)
SELECT
    calls.trace_id,
    calls.span_id,
    calls.name,
    calls.calls,
    calls.total_ms,
    make_timestamp_ns(calls.newest_unix_nano) AS newest_time,
    calls.service_name,
    run.inputs AS tool_input
FROM calls
JOIN runs AS run ON run.row_id = calls.first_row
ORDER BY
    calls.calls DESC,
    calls.newest_unix_nano DESC,
    calls.trace_id,
    calls.name,
    calls.inputs_hash;
