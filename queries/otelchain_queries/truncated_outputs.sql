-- title: Truncated outputs
-- description: Model runs that stopped because they had reached their limit of output tokens, newest first. Only what the provider gave as finish reason counts; where it gave none, nothing is known.
-- why: Half an answer looks like an answer, and half a JSON text fails two steps later.
-- example: otelchain query truncated-outputs --since 7d
-- next: 'otelchain show TRACE_ID' shows the answer; raise max_tokens, or ask for less at once.
-- finding: An answer of {name} was cut off at its limit of output tokens.
-- weight: 60
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH picked AS (
    SELECT row_id
    FROM runs
    WHERE run_type = 'llm'
        AND finish_reasons IS NOT NULL
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        -- OpenAI, Anthropic and Bedrock, Gemini, Cohere, Mistral
        AND list_has_any(
            list_transform(finish_reasons, lambda reason: lower(reason)),
            ['length', 'max_tokens', 'max_output_tokens', 'model_length', 'token_limit']
        )
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.model,
    run.finish_reasons,
    run.output_tokens,
    run.duration_ms,
    run.start_time,
    parent.name AS parent_name,
    run.session_id,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN runs AS parent
    ON parent.trace_id = run.trace_id AND parent.span_id = run.parent_span_id
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
