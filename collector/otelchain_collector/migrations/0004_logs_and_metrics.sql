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
    body JSON,                                   -- NULL for none; JSON null for an empty value
    attributes JSON NOT NULL,                    -- flat object, dotted keys; see collector/README.md
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
