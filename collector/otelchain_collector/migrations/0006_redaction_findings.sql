-- What the collector had to take out of what arrived, so that an application that leaks can be found:
-- one row per commit, service, scope, attribute and rule. Never a value; keys are redacted. A resend
-- adds nothing.
CREATE TABLE redaction_findings (
    received_time_unix_nano BIGINT NOT NULL,     -- of the last of them
    signal VARCHAR NOT NULL,                     -- traces, logs, metrics
    service_name VARCHAR,
    scope_name VARCHAR NOT NULL,                 -- the instrumentation that made the record
    attribute VARCHAR NOT NULL,                  -- its key, or the name of a field, as span.name
    rule VARCHAR NOT NULL,                       -- as it stands in the replacement
    failed BOOLEAN NOT NULL,                     -- the rule failed; the whole value was replaced
    count BIGINT NOT NULL,
    trace_id VARCHAR NOT NULL,                   -- an example; empty where the record has none
    span_id VARCHAR NOT NULL
);
