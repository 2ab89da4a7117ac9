-- title: Rejected spans, log records and data points
-- description: Spans that the collector could not store (signal traces), and log records (logs) and data points (metrics), by service, signal and reason, most first. since and until are about the time of arrival; the trace id is that of the newest, as it arrived.
-- why: Python exporters do not show what a collector refuses: here is the only place where it can be seen.
-- example: otelchain query rejected-spans --since 24h
-- next: The reason names the field; correct the sender, or report it to whoever writes the instrumentation.
-- finding: {rejected:number} {kind} could not be stored: {reason}.
-- weight: 70
-- param: since = 1970-01-01  only what arrived at or after this UTC time
-- param: until = 2262-01-01  only what arrived before this UTC time
-- param: service =   only what this service sent; empty for every service
-- param: limit = 100  number of rows to show
SELECT
    arg_max(trace_id, received_time_unix_nano) AS trace_id,
    arg_max(span_id, received_time_unix_nano) AS span_id,
    signal,
    CASE signal
        WHEN 'traces' THEN 'span'
        WHEN 'logs' THEN 'log record'
        ELSE 'data point'
    END || if(count(*) = 1, '', 's') AS kind,
    reason,
    count(*) AS rejected,
    arg_max(name, received_time_unix_nano) AS newest_name,
    make_timestamp_ns(min(received_time_unix_nano)) AS first_time,
    make_timestamp_ns(max(received_time_unix_nano)) AS newest_time,
    service_name
FROM rejected_records
WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
    AND ($service = '' OR service_name = $service)
GROUP BY service_name, signal, reason
ORDER BY rejected DESC, reason, service_name, signal
LIMIT $limit::BIGINT;
