-- title: Redaction findings
-- description: What the collector had to take out of what arrived, by service, instrumentation (scope), attribute and rule, most first, with one span as an example where there is one. Failed: the rule failed, and the whole value was replaced. since and until are about the time of arrival.
-- why: An application that redacts at the source leaves nothing to find here. Each row is a leak that reached the wire, and says where to close it.
-- example: otelchain query redaction-findings --since 24h
-- next: 'otelchain show TRACE_ID' shows where it came from; let that application redact at the source (OTELCHAIN_REDACTION), or leave the attribute out.
-- finding: Service {service_name|without a name} sent {count:times} what rule {rule} looks for, in {attribute}.
-- weight: 95
-- param: rule =   only this rule; empty for every rule
-- param: since = 1970-01-01  only what arrived at or after this UTC time
-- param: until = 2262-01-01  only what arrived before this UTC time
-- param: service =   only this service; empty for every service
-- param: limit = 100  number of rows to show
SELECT
    nullif(arg_max(trace_id, received_time_unix_nano), '') AS trace_id,
    nullif(arg_max(span_id, received_time_unix_nano), '') AS span_id,
    service_name,
    scope_name,
    attribute,
    rule,
    failed,
    sum(count)::BIGINT AS count,
    make_timestamp_ns(min(received_time_unix_nano)) AS first_seen,
    make_timestamp_ns(max(received_time_unix_nano)) AS last_seen,
    signal
FROM redaction_findings
WHERE received_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
    AND received_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
    AND ($service = '' OR service_name = $service)
    AND ($rule = '' OR rule = $rule)
GROUP BY ALL
ORDER BY count DESC, service_name, scope_name, attribute, rule, failed, signal
LIMIT $limit::BIGINT;
