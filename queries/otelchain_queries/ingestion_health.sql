-- title: Ingestion health
-- description: What arrived, by service: how many spans and when, how long after their end (percentiles in milliseconds), how many ended in the collector's future (clocks differ), how many lost attributes, events or links on the way, and how many were rejected or are still pending. since and until are about the time of arrival. trouble is NULL where all is well.
-- why: Answers are only as good as what arrived.
-- example: otelchain query ingestion-health --since 24h
-- next: Late spans: look at the exporter and its spool. Dropped attributes: raise the limits of the SDK. A service that is missing here sends nothing.
-- finding: Of service {service_name}, {trouble}.
-- weight: 45
-- param: since = 1970-01-01  only spans that started at or after this UTC time
-- param: until = 2262-01-01  only spans that started before this UTC time
-- param: service =   only spans of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH arrived AS (
    SELECT
        service_name,
        count(*) AS spans,
        min(received_time_unix_nano) AS first_unix_nano,
        max(received_time_unix_nano) AS newest_unix_nano,
        quantile_disc(received_time_unix_nano - end_time_unix_nano, [0.5, 0.99]) AS delays,
        count(*) FILTER (received_time_unix_nano < end_time_unix_nano) AS from_the_future,
        count(*) FILTER (
            dropped_attributes_count + dropped_events_count + dropped_links_count > 0
        ) AS spans_with_losses
    FROM spans
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name
),
refused AS (
    SELECT service_name, count(*) AS rejected
    FROM rejected_spans
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name
),
started AS (
    SELECT service_name, count(*) AS pending
    FROM pending_spans
    WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name
),
services AS (
    SELECT service_name FROM arrived
    UNION
    SELECT service_name FROM refused
    UNION
    SELECT service_name FROM started
)
SELECT
    services.service_name,
    coalesce(arrived.spans, 0) AS spans,
    make_timestamp_ns(arrived.first_unix_nano) AS first_time,
    make_timestamp_ns(arrived.newest_unix_nano) AS newest_time,
    arrived.delays[1] / 1e6 AS p50_delay_ms,
    arrived.delays[2] / 1e6 AS p99_delay_ms,
    coalesce(arrived.from_the_future, 0) AS from_the_future,
    coalesce(arrived.spans_with_losses, 0) AS spans_with_losses,
    coalesce(refused.rejected, 0) AS rejected,
    coalesce(started.pending, 0) AS pending,
    nullif(
        array_to_string(
            list_filter(
                [
                    if(arrived.delays[2] >= 60e9, 'spans arrive late', NULL),
                    if(arrived.from_the_future > 0, 'clocks differ', NULL),
                    if(arrived.spans_with_losses > 0, 'spans have losses', NULL)
                ],
                lambda text: text IS NOT NULL
            ),
            ', '
        ),
        ''
    ) AS trouble
FROM services
LEFT JOIN arrived ON arrived.service_name IS NOT DISTINCT FROM services.service_name
LEFT JOIN refused ON refused.service_name IS NOT DISTINCT FROM services.service_name
LEFT JOIN started ON started.service_name IS NOT DISTINCT FROM services.service_name
ORDER BY spans DESC, services.service_name
LIMIT $limit::BIGINT;
