-- title: Empty retrievals
-- description: Retrievers that found nothing, by service and name: in how many of their calls, and how often the answer was given all the same. Calls whose number of documents is not known do not count.
-- why: A model that gets no documents answers from memory, and nothing in the answer shows it.
-- example: otelchain query empty-retrievals --min-percent 10 --since 7d
-- next: 'otelchain show TRACE_ID' shows the newest case; compare its query with what the index holds, and let the chain say that it found nothing.
-- finding: Retriever {name} found nothing in {empty_calls} of {calls:calls} (answered all the same: {answered_calls}).
-- weight: 55
-- param: min_percent = 0  smallest share of empty calls to show, in percent
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH calls AS (
    SELECT
        service_name,
        name,
        trace_id,
        span_id,
        start_time_unix_nano,
        document_count = 0 AS is_empty
    FROM runs
    WHERE run_type = 'retriever'
        AND status = 'ok'
        AND document_count IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
),
answered AS (
    -- Traces whose root, as in first_causes.sql, ended well, of those in which something was not
    -- found.
    SELECT trace_id
    FROM runs
    WHERE trace_id IN (SELECT trace_id FROM calls WHERE is_empty)
    GROUP BY trace_id
    HAVING coalesce(
        bool_or(status = 'ok') FILTER (parent_span_id IS NULL),
        arg_min(status, start_time_unix_nano) = 'ok'
    )
),
retrievers AS (
    SELECT
        service_name,
        name,
        count(*) AS calls,
        count(*) FILTER (is_empty) AS empty_calls,
        count(*) FILTER (is_empty AND answered.trace_id IS NOT NULL) AS answered_calls,
        max_by(
            struct_pack(trace_id := calls.trace_id, span_id, start_time_unix_nano),
            start_time_unix_nano
        ) FILTER (is_empty) AS newest
    FROM calls
    LEFT JOIN answered USING (trace_id)
    GROUP BY service_name, name
    HAVING empty_calls > 0 AND 100.0 * empty_calls / calls >= $min_percent::DOUBLE
)
SELECT
    newest.trace_id,
    newest.span_id,
    name,
    calls,
    empty_calls,
    100.0 * empty_calls / calls AS empty_percent,
    answered_calls,
    make_timestamp_ns(newest.start_time_unix_nano) AS newest_time,
    service_name
FROM retrievers
ORDER BY empty_calls DESC, name, service_name
LIMIT $limit::BIGINT;
