-- By which rules the columns were read out of the attributes: the last row says it for every row of spans
-- and pending_spans, of which none is of older rules. 0 means: before anybody took that down.
CREATE TABLE normalisation_rules (
    version INTEGER NOT NULL,                    -- RULES_VERSION in rules.py
    applied_time_unix_nano BIGINT NOT NULL
);
