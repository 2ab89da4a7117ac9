-- OTLP's two other signals. A log record and a data point have no id there, so record_id is the
-- digest of all that they say, and of their place among equals in their request (content_id.py): a
-- resend gives the same ids and is left out. Only types that DuckLake keeps exactly.

-- One row per log record, and so per event that has no span of its own.
CREATE TABLE logs (
    record_id VARCHAR NOT NULL,                  -- 32 hex digits
    record_time_unix_nano BIGINT NOT NULL,       -- time_unix_nano, or the observed time where it is 0
    -- opentelemetry/proto/logs/v1/logs.proto, message LogRecord
    time_unix_nano BIGINT NOT NULL,              -- 0 is unknown
    observed_time_unix_nano BIGINT NOT NULL,     -- 0 is unknown
    severity_number INTEGER NOT NULL,            -- SeverityNumber: 0 unspecified, 9 info, 13 warn, 17 error, …
    severity_text VARCHAR NOT NULL,
    event_name VARCHAR NOT NULL,                 -- empty for a record that is no event
    body JSON USING COMPRESSION zstd,            -- NULL for none; JSON null for an empty value
    attributes JSON NOT NULL USING COMPRESSION zstd,  -- flat object, dotted keys; see collector/README.md
    dropped_attributes_count BIGINT NOT NULL,
    flags BIGINT NOT NULL,
    trace_id VARCHAR,                            -- NULL for none, and where it is no valid id
    span_id VARCHAR,
    -- ScopeLogs and ResourceLogs around it
    scope_name VARCHAR NOT NULL,
    scope_version VARCHAR NOT NULL,
    scope_attributes JSON NOT NULL,
    scope_dropped_attributes_count BIGINT NOT NULL,
    scope_schema_url VARCHAR NOT NULL,
    resource_attributes JSON NOT NULL,
    resource_dropped_attributes_count BIGINT NOT NULL,
    resource_schema_url VARCHAR NOT NULL,
    resource_entity_refs JSON,                   -- [{schema_url, type, id_keys, description_keys}]; NULL for none
    service_name VARCHAR,
    received_time_unix_nano BIGINT NOT NULL
);

-- One row per data point, with the metric that it belongs to. What a kind of metric does not have is
-- NULL, and so is what the point leaves out.
CREATE TABLE metric_points (
    record_id VARCHAR NOT NULL,
    -- opentelemetry/proto/metrics/v1/metrics.proto, message Metric
    name VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    metadata JSON NOT NULL,
    kind VARCHAR NOT NULL,                       -- gauge, sum, histogram, exponential_histogram, summary
    aggregation_temporality INTEGER,             -- AggregationTemporality: 0 unspecified, 1 delta, 2 cumulative
    is_monotonic BOOLEAN,                        -- of a sum
    -- its data point
    attributes JSON NOT NULL,
    start_time_unix_nano BIGINT NOT NULL,        -- 0 is unknown
    time_unix_nano BIGINT NOT NULL,
    flags BIGINT NOT NULL,                       -- 1: no recorded value
    value_double DOUBLE,                         -- gauge and sum have one of the two
    value_int BIGINT,
    count UBIGINT,                               -- histograms and summary
    sum DOUBLE,
    min DOUBLE,
    max DOUBLE,
    explicit_bounds DOUBLE[],                    -- histogram: bounds, and one count more than bounds
    bucket_counts UBIGINT[],
    scale INTEGER,                               -- exponential histogram
    zero_count UBIGINT,
    zero_threshold DOUBLE,
    positive_offset INTEGER,
    positive_bucket_counts UBIGINT[],
    negative_offset INTEGER,
    negative_bucket_counts UBIGINT[],
    quantiles DOUBLE[],                          -- summary: quantiles, and the value of each
    quantile_values DOUBLE[],
    exemplars JSON NOT NULL,                     -- [{filtered_attributes, time_unix_nano, value, span_id, trace_id}]
    -- ScopeMetrics and ResourceMetrics around it
    scope_name VARCHAR NOT NULL,
    scope_version VARCHAR NOT NULL,
    scope_attributes JSON NOT NULL,
    scope_dropped_attributes_count BIGINT NOT NULL,
    scope_schema_url VARCHAR NOT NULL,
    resource_attributes JSON NOT NULL,
    resource_dropped_attributes_count BIGINT NOT NULL,
    resource_schema_url VARCHAR NOT NULL,
    resource_entity_refs JSON,
    service_name VARCHAR,
    received_time_unix_nano BIGINT NOT NULL
);

-- The one field of OTLP's resource that spans had no column for.
ALTER TABLE spans ADD COLUMN resource_entity_refs JSON;
ALTER TABLE pending_spans ADD COLUMN resource_entity_refs JSON;

-- Records of any signal that can never be stored.
CREATE TABLE rejected_records (
    received_time_unix_nano BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    trace_id VARCHAR,                            -- hex of whatever arrived
    span_id VARCHAR,
    name VARCHAR,                                -- of the span, the event or the metric
    service_name VARCHAR,
    signal VARCHAR NOT NULL                      -- traces, logs, metrics
);
INSERT INTO rejected_records BY NAME SELECT *, 'traces' AS signal FROM rejected_spans;
DROP TABLE rejected_spans;
CREATE VIEW rejected_spans AS
SELECT * EXCLUDE (signal) FROM rejected_records WHERE signal = 'traces';

-- Verdicts on runs: the event gen_ai.evaluation.result of OpenTelemetry's GenAI conventions, as a log
-- record (what they ask for) or as an event of the span, each with the run that was judged. A log
-- record that knows no span finds it by gen_ai.response.id.
CREATE VIEW evaluations AS
WITH events AS (
    SELECT
        'log' AS source,
        trace_id,
        span_id,
        record_time_unix_nano AS time_unix_nano,
        attributes,
        attributes ->> 'gen_ai.response.id' AS response_id,
        service_name
    FROM logs
    WHERE event_name = 'gen_ai.evaluation.result'
        -- before LogRecord had the field
        OR (event_name = '' AND (attributes ->> 'event.name') = 'gen_ai.evaluation.result')
),
span_events AS (
    SELECT
        trace_id,
        span_id,
        service_name,
        attributes ->> 'gen_ai.response.id' AS response_id,
        unnest(CAST(events AS JSON[])) AS event
    FROM spans
    WHERE events::VARCHAR LIKE '%gen_ai.evaluation.result%'
),
-- An inner join, so that no span is read when every record knows its span.
found AS (
    SELECT
        response_id,
        any_value(spans.trace_id) AS trace_id,
        any_value(spans.span_id) AS span_id
    FROM (SELECT DISTINCT response_id FROM events WHERE span_id IS NULL AND response_id IS NOT NULL)
    JOIN spans ON (spans.attributes ->> 'gen_ai.response.id') = response_id
    GROUP BY response_id
    -- An id of several spans names none of them.
    HAVING count(*) = 1
),
results AS (
    SELECT events.* REPLACE (
        coalesce(found.trace_id, events.trace_id) AS trace_id,
        coalesce(found.span_id, events.span_id) AS span_id
    )
    FROM events
    LEFT JOIN found ON events.span_id IS NULL AND events.response_id = found.response_id
    UNION ALL BY NAME
    SELECT
        'span_event' AS source,
        trace_id,
        span_id,
        (event ->> 'time_unix_nano')::BIGINT AS time_unix_nano,
        event -> 'attributes' AS attributes,
        coalesce((event -> 'attributes') ->> 'gen_ai.response.id', response_id) AS response_id,
        service_name
    FROM span_events
    WHERE (event ->> 'name') = 'gen_ai.evaluation.result'
)
SELECT
    results.attributes ->> 'gen_ai.evaluation.name' AS name,
    coalesce(
        try_cast(results.attributes ->> 'gen_ai.evaluation.score.value' AS DOUBLE),
        try_cast((results.attributes -> 'gen_ai.evaluation.score.value') ->> '@double' AS DOUBLE)
    ) AS score_value,
    results.attributes ->> 'gen_ai.evaluation.score.label' AS score_label,
    results.attributes ->> 'gen_ai.evaluation.explanation' AS explanation,
    results.attributes ->> 'error.type' AS error_type,       -- of the evaluator
    results.response_id,
    results.trace_id,
    results.span_id,
    make_timestamp_ns(results.time_unix_nano) AS time,
    results.time_unix_nano,
    results.source,
    -- the run that was judged; NULL where it is not stored
    spans.run_id,
    coalesce(spans.run_name, spans.name) AS run_name,
    spans.run_type,
    spans.run_status,
    spans.model,
    spans.session_id,
    coalesce(spans.service_name, results.service_name) AS service_name,
    results.attributes
FROM results
LEFT JOIN spans ON spans.trace_id = results.trace_id AND spans.span_id = results.span_id;
