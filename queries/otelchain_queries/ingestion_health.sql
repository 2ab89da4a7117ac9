-- title: Ingestion health
-- description: What arrived, by service and signal (spans of traces, log records, data points of metrics): how many and when, how long after their end (percentiles in milliseconds), how many were of the collector's future (clocks differ), how many lost attributes, events or links on the way, and how many were rejected or are still pending. since and until are about the time of arrival. trouble is NULL where all is well.
-- why: Answers are only as good as what arrived.
-- example: otelchain query ingestion-health --since 24h
-- next: Late spans: look at the exporter and its spool. Dropped attributes: raise the limits of the SDK. A service that is missing here sends nothing.
-- finding: Of service {service_name|without a name}, {trouble}.
-- weight: 45
-- param: since = 1970-01-01  only what arrived at or after this UTC time
-- param: until = 2262-01-01  only what arrived before this UTC time
-- param: service =   only what this service sent; empty for every service
-- param: limit = 100  number of rows to show
WITH records AS (
    SELECT
        'traces' AS signal,
        service_name,
        received_time_unix_nano,
        end_time_unix_nano AS time_unix_nano,
        dropped_attributes_count + dropped_events_count + dropped_links_count > 0 AS has_losses
    FROM spans
    UNION ALL
    SELECT
        'logs',
        service_name,
        received_time_unix_nano,
        nullif(record_time_unix_nano, 0),
        dropped_attributes_count > 0
    FROM logs
    UNION ALL
    SELECT 'metrics', service_name, received_time_unix_nano, nullif(time_unix_nano, 0), false
    FROM metric_points
),
arrived AS (
    SELECT
        service_name,
        signal,
        count(*) AS records,
        min(received_time_unix_nano) AS first_unix_nano,
        max(received_time_unix_nano) AS newest_unix_nano,
        quantile_disc(received_time_unix_nano - time_unix_nano, [0.5, 0.99]) AS delays,
        count(*) FILTER (received_time_unix_nano < time_unix_nano) AS from_the_future,
        count(*) FILTER (has_losses) AS with_losses
    FROM records
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, signal
),
refused AS (
    SELECT service_name, signal, count(*) AS rejected
    FROM rejected_records
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, signal
),
started AS (
    SELECT service_name, 'traces' AS signal, count(*) AS pending
    FROM pending_spans
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name
),
senders AS (
    SELECT service_name, signal FROM arrived
    UNION
    SELECT service_name, signal FROM refused
    UNION
    SELECT service_name, signal FROM started
),
named AS (
    SELECT
        *,
        CASE signal
            WHEN 'traces' THEN 'spans'
            WHEN 'logs' THEN 'log records'
            ELSE 'data points'
        END AS kind
    FROM senders
)
SELECT
    named.service_name,
    named.signal,
    coalesce(arrived.records, 0) AS records,
    make_timestamp_ns(arrived.first_unix_nano) AS first_time,
    make_timestamp_ns(arrived.newest_unix_nano) AS newest_time,
    arrived.delays[1] / 1e6 AS p50_delay_ms,
    arrived.delays[2] / 1e6 AS p99_delay_ms,
    coalesce(arrived.from_the_future, 0) AS from_the_future,
    coalesce(arrived.with_losses, 0) AS with_losses,
    coalesce(refused.rejected, 0) AS rejected,
    coalesce(started.pending, 0) AS pending,
    nullif(
        array_to_string(
            list_filter(
                [
                    if(arrived.delays[2] >= 60e9, kind || ' arrive late', NULL),
                    if(
                        arrived.from_the_future > 0,
                        'clocks differ (' || kind || ' of the future)',
                        NULL
                    ),
                    if(arrived.with_losses > 0, kind || ' have losses', NULL)
                ],
                lambda text: text IS NOT NULL
            ),
            ', '
        ),
        ''
    ) AS trouble
FROM named
LEFT JOIN arrived
    ON arrived.service_name IS NOT DISTINCT FROM named.service_name
    AND arrived.signal = named.signal
LEFT JOIN refused
    ON refused.service_name IS NOT DISTINCT FROM named.service_name
    AND refused.signal = named.signal
LEFT JOIN started
    ON started.service_name IS NOT DISTINCT FROM named.service_name
    AND started.signal = named.signal
ORDER BY records DESC, named.service_name, named.signal
LIMIT $limit::BIGINT;
