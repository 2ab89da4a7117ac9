-- title: Token use and cost
-- description: Tokens and cost in US dollars of model runs, by model, service, session, user, agent or day, the most expensive first. Only models count: agents may repeat the sum of theirs, and the span that an instrumented client wrote inside a model's run repeats that run. The cost is the sum over the runs whose cost is known; unpriced_runs says of how many it is not.
-- why: One user, one session or one model is often most of the bill.
-- example: otelchain query token-use --by user --since 30d
-- next: 'otelchain query cost-outliers' lists single runs; 'otelchain query growing-sessions' finds the chats whose prompts only grow.
-- param: by = model  what to sum by: model, service, session, user, agent or day
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH model_runs AS (
    SELECT
        trace_id,
        span_id,
        parent_span_id,
        dialect,
        CASE $by
            WHEN 'model' THEN model
            WHEN 'service' THEN service_name
            WHEN 'session' THEN session_id
            WHEN 'user' THEN user_id
            WHEN 'agent' THEN agent_name
            WHEN 'day' THEN strftime(start_time, '%Y-%m-%d')
            ELSE error(
                'by must be model, service, session, user, agent or day, not ''' || $by || ''''
            )
        END AS name,
        input_tokens,
        output_tokens,
        total_tokens,
        cache_read_tokens,
        reasoning_tokens,
        cost_usd,
        start_time_unix_nano
    FROM runs
    WHERE run_type = 'llm'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
),
repeated AS (
    -- What a provider's client has written, instrumented too, inside the run of a model.
    SELECT own.trace_id, own.span_id
    FROM model_runs AS own
    JOIN model_runs AS parent
        ON parent.trace_id = own.trace_id AND parent.span_id = own.parent_span_id
    WHERE own.dialect <> 'otelchain' AND parent.total_tokens IS NOT NULL
)
SELECT
    arg_max(trace_id, coalesce(cost_usd, 0)) AS trace_id,
    name,
    count(*) AS runs,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    sum(total_tokens)::BIGINT AS total_tokens,
    sum(cache_read_tokens)::BIGINT AS cache_read_tokens,
    sum(reasoning_tokens)::BIGINT AS reasoning_tokens,
    sum(cost_usd) AS cost_usd,
    count(*) FILTER (cost_usd IS NULL) AS unpriced_runs,
    make_timestamp_ns(max(start_time_unix_nano)) AS newest_time
FROM model_runs
ANTI JOIN repeated USING (trace_id, span_id)
GROUP BY name
ORDER BY cost_usd DESC NULLS LAST, total_tokens DESC NULLS LAST, name
LIMIT $limit::BIGINT;
