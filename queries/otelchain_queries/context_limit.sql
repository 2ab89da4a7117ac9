-- title: Prompts near the context limit
-- description: Model runs whose input filled most of the model's context window (kind nearly full), or that failed or stopped because it was full (kind full), fullest first. The window comes from genai-prices' table where the collector has it; give --window for models that it does not know.
-- why: Just before a prompt fails for its length, its middle is read badly; and it is the most expensive one.
-- example: otelchain query context-limit --min-percent 90 --since 7d
-- next: 'otelchain show TRACE_ID' shows what fills the prompt; 'otelchain query growing-sessions' finds chats that will get there.
-- finding: The context window of {name} was {kind} in a call.
-- weight: 60
-- param: min_percent = 80  how full the window must be, in percent
-- param: window = 0  tokens that the model takes in; 0 for what is known about each
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH model_runs AS (
    SELECT
        row_id,
        input_tokens,
        coalesce(nullif($window::BIGINT, 0), context_window) AS window_tokens,
        start_time_unix_nano,
        (
            status = 'error'
            AND regexp_matches(
                lower(coalesce(error_type, '') || ' ' || coalesce(error, '')),
                'context.?length|context.?window|contextoverflow|maximum context'
                    || '|(prompt|input) is too long|too many (input )?tokens'
            )
        )
        OR coalesce(list_contains(finish_reasons, 'model_context_window_exceeded'), false)
            AS is_full
    FROM runs
    WHERE run_type = 'llm'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND (input_tokens IS NOT NULL OR status = 'error')
),
picked AS (
    SELECT
        row_id,
        window_tokens,
        if(is_full, 'full', 'nearly full') AS kind,
        100.0 * input_tokens / window_tokens AS percent
    FROM model_runs
    WHERE is_full OR 100.0 * input_tokens / window_tokens >= $min_percent::DOUBLE
    ORDER BY is_full DESC, percent DESC NULLS LAST, start_time_unix_nano DESC, row_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.model,
    picked.kind,
    run.input_tokens,
    picked.window_tokens,
    picked.percent,
    run.duration_ms,
    run.start_time,
    run.error_type,
    run.session_id,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY picked.kind, picked.percent DESC NULLS LAST, run.start_time_unix_nano DESC, picked.row_id;
