-- title: Sessions whose prompts grow turn by turn
-- description: Sessions in which the largest prompt of a turn (a trace) grew with every turn, those with the largest last prompt first. Turns that overlap in time count in the order of their start; turns without a token count do not count.
-- why: A memory that is never cut makes each turn slower and more expensive, until it no longer fits.
-- example: otelchain query growing-sessions --min-turns 5 --since 7d
-- next: 'otelchain show TRACE_ID' shows the last turn; summarise or trim the history, or let LangGraph do it.
-- finding: In a session of {turns:turns} the prompt grew with every turn, from {first_input_tokens:number} to {last_input_tokens:number} tokens.
-- weight: 35
-- param: min_turns = 3  fewest turns that make a trend; at least 2
-- param: min_growth = 1.5  how many times the first prompt the last one must be
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH turns AS (
    SELECT
        service_name,
        session_id,
        trace_id,
        min(start_time_unix_nano) AS start_unix_nano,
        max(input_tokens) AS input_tokens
    FROM runs
    WHERE run_type = 'llm'
        AND session_id IS NOT NULL
        AND input_tokens IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
    GROUP BY service_name, session_id, trace_id
),
steps AS (
    SELECT
        *,
        input_tokens > lag(input_tokens) OVER (
            PARTITION BY service_name, session_id ORDER BY start_unix_nano, trace_id
        ) AS has_grown
    FROM turns
),
sessions AS (
    SELECT
        service_name,
        session_id,
        count(*) AS turns,
        arg_min(input_tokens, start_unix_nano) AS first_input_tokens,
        arg_max(input_tokens, start_unix_nano) AS last_input_tokens,
        arg_max(trace_id, start_unix_nano) AS last_trace_id,
        max(start_unix_nano) AS last_unix_nano
    FROM steps
    GROUP BY service_name, session_id
    HAVING turns >= $min_turns::BIGINT
        AND bool_and(coalesce(has_grown, true))
        AND last_input_tokens >= $min_growth::DOUBLE * first_input_tokens
)
SELECT
    last_trace_id AS trace_id,
    session_id,
    turns,
    first_input_tokens,
    last_input_tokens,
    (last_input_tokens - first_input_tokens) / (turns - 1) AS tokens_per_turn,
    make_timestamp_ns(last_unix_nano) AS newest_time,
    service_name
FROM sessions
ORDER BY last_input_tokens DESC, session_id, service_name
LIMIT $limit::BIGINT;
