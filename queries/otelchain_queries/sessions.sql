-- title: Sessions
-- description: One row for each session of a service, the one that was active last first: how many turns (traces) and runs it has, how many of the runs failed, and what its models took. Only runs that carry the session's id are counted.
-- why: A conversation is many traces; this is the list of conversations.
-- example: otelchain query sessions --service shop --since 24h
-- next: 'otelchain show TRACE_ID' shows the newest turn; 'otelchain query growing-sessions' finds those whose memory grows.
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT service_name, session_id, max(start_time_unix_nano) AS newest_unix_nano
    FROM runs
    WHERE session_id IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, session_id
    ORDER BY newest_unix_nano DESC, session_id, service_name
    LIMIT $limit::BIGINT
),
chosen AS (
    SELECT
        run.trace_id,
        run.span_id,
        run.parent_span_id,
        run.run_type,
        run.status,
        run.dialect,
        run.total_tokens,
        run.user_id,
        run.start_time_unix_nano,
        newest.session_id,
        newest.service_name
    FROM newest
    JOIN runs AS run
        ON run.session_id = newest.session_id
        AND run.service_name IS NOT DISTINCT FROM newest.service_name
    WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
),
repeated AS (
    -- What a provider's client has written, instrumented too, inside the run of a model.
    SELECT own.trace_id, own.span_id, true AS is_repeated
    FROM chosen AS own
    JOIN chosen AS parent
        ON parent.trace_id = own.trace_id AND parent.span_id = own.parent_span_id
    WHERE own.run_type = 'llm'
        AND own.dialect <> 'otelchain'
        AND parent.run_type = 'llm'
        AND parent.total_tokens IS NOT NULL
)
SELECT
    arg_max(trace_id, start_time_unix_nano) AS trace_id,
    session_id,
    count(DISTINCT trace_id) AS turns,
    count(*) AS runs,
    count(*) FILTER (status = 'error') AS errors,
    count(*) FILTER (status = 'pending') AS pending,
    -- Agents may repeat the sum of their models' tokens.
    (sum(total_tokens) FILTER (run_type = 'llm' AND is_repeated IS NULL))::BIGINT AS total_tokens,
    make_timestamp_ns(min(start_time_unix_nano)) AS first_time,
    make_timestamp_ns(max(start_time_unix_nano)) AS newest_time,
    count(DISTINCT user_id) AS users,
    service_name
FROM chosen
LEFT JOIN repeated USING (trace_id, span_id)
GROUP BY service_name, session_id
ORDER BY newest_time DESC, session_id, service_name;
