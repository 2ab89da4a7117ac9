-- title: Rejected spans
-- description: Spans that the collector could not store, by service and reason, most first. since and until are about the time of arrival; the trace id is that of the newest, as it arrived.
-- why: Python exporters do not show what a collector refuses: here is the only place where it can be seen.
-- example: otelchain query rejected-spans --since 24h
-- next: The reason names the field; correct the sender, or report it to whoever writes the instrumentation.
-- finding: {rejected} spans could not be stored: {reason}.
-- weight: 70
-- param: since = 1970-01-01  only spans that started at or after this UTC time
-- param: until = 2262-01-01  only spans that started before this UTC time
-- param: service =   only spans of this service; empty for every service
-- param: limit = 100  number of rows to show
SELECT
    arg_max(trace_id, received_time_unix_nano) AS trace_id,
    arg_max(span_id, received_time_unix_nano) AS span_id,
    reason,
    count(*) AS rejected,
    arg_max(name, received_time_unix_nano) AS newest_name,
    make_timestamp_ns(min(received_time_unix_nano)) AS first_time,
    make_timestamp_ns(max(received_time_unix_nano)) AS newest_time,
    service_name
FROM rejected_spans
WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
    AND ($service = '' OR service_name = $service)
GROUP BY service_name, reason
ORDER BY rejected DESC, reason, service_name
LIMIT $limit::BIGINT;
