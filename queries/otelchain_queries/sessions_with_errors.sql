-- title: Sessions with errors
-- description: Sessions in which something failed, by service, those with most failed turns first: traces of which the root failed, or the first run that carries the session. handled_errors counts tools that answered with an error message.
-- why: A user remembers the conversation, not the call: three errors in one chat are worse than in three.
-- example: otelchain query sessions-with-errors --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest turn with an error.
-- param: min_errors = 1  fewest errors, handled ones included
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH members AS (
    SELECT
        service_name,
        session_id,
        trace_id,
        user_id,
        status,
        parent_span_id IS NULL AS is_root,
        start_time_unix_nano
    FROM runs
    WHERE session_id IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
turns AS (
    SELECT
        service_name,
        session_id,
        trace_id,
        -- As in first_causes.sql, among the runs that carry the session.
        coalesce(
            bool_or(status = 'error') FILTER (is_root),
            arg_min(status, start_time_unix_nano) = 'error'
        ) AS has_failed,
        count(*) FILTER (status = 'error') AS errors,
        count(*) FILTER (status = 'handled_error') AS handled_errors,
        max(start_time_unix_nano) FILTER (status IN ('error', 'handled_error'))
            AS newest_unix_nano
    FROM members
    SEMI JOIN (
        SELECT DISTINCT service_name, session_id
        FROM members
        WHERE status IN ('error', 'handled_error')
    ) AS failing
        ON failing.session_id = members.session_id
        AND failing.service_name IS NOT DISTINCT FROM members.service_name
    GROUP BY service_name, session_id, trace_id
),
sessions AS (
    SELECT
        arg_max(trace_id, newest_unix_nano) AS trace_id,
        session_id,
        count(*) AS turns,
        count(*) FILTER (has_failed) AS failed_turns,
        sum(turns.errors)::BIGINT AS errors,
        sum(turns.handled_errors)::BIGINT AS handled_errors,
        max(newest_unix_nano) AS newest_unix_nano,
        service_name
    FROM turns
    GROUP BY service_name, session_id
    HAVING sum(turns.errors + turns.handled_errors) >= $min_errors::BIGINT
    ORDER BY failed_turns DESC, errors DESC, handled_errors DESC, session_id, service_name
    LIMIT $limit::BIGINT
),
users AS (
    SELECT members.service_name, members.session_id, count(DISTINCT members.user_id) AS users
    FROM members
    JOIN sessions
        ON sessions.session_id = members.session_id
        AND sessions.service_name IS NOT DISTINCT FROM members.service_name
    GROUP BY members.service_name, members.session_id
)
SELECT
    sessions.trace_id,
    sessions.session_id,
    sessions.turns,
    sessions.failed_turns,
    sessions.errors,
    sessions.handled_errors,
    users.users,
    make_timestamp_ns(sessions.newest_unix_nano) AS newest_error_time,
    sessions.service_name
FROM sessions
JOIN users
    ON users.session_id = sessions.session_id
    AND users.service_name IS NOT DISTINCT FROM sessions.service_name
ORDER BY failed_turns DESC, errors DESC, handled_errors DESC, sessions.session_id, service_name;
