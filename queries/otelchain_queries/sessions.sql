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
)
SELECT
    arg_max(run.trace_id, run.start_time_unix_nano) AS trace_id,
    newest.session_id,
    count(DISTINCT run.trace_id) AS turns,
    count(*) AS runs,
    count(*) FILTER (run.status = 'error') AS errors,
    count(*) FILTER (run.status = 'pending') AS pending,
    -- Agents may repeat the sum of their models' tokens.
    (sum(run.total_tokens) FILTER (run.run_type = 'llm'))::BIGINT AS total_tokens,
    make_timestamp_ns(min(run.start_time_unix_nano)) AS first_time,
    make_timestamp_ns(max(run.start_time_unix_nano)) AS newest_time,
    count(DISTINCT run.user_id) AS users,
    newest.service_name
FROM newest
JOIN runs AS run
    ON run.session_id = newest.session_id
    AND run.service_name IS NOT DISTINCT FROM newest.service_name
WHERE run.start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND run.start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
GROUP BY newest.service_name, newest.session_id
ORDER BY newest_time DESC, newest.session_id, newest.service_name;
