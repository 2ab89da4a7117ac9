-- title: Content filter hits
-- description: Model runs that a provider's filter stopped (kind stopped: its finish reason) or refused (kind refused: it raised), newest first.
-- why: A filter that hits good questions is a bug of the prompt; one that hits bad ones is worth knowing too.
-- example: otelchain query content-filter-hits --since 30d
-- next: 'otelchain show TRACE_ID' shows what was asked.
-- finding: A call of {name} was {kind} by the provider's content filter.
-- weight: 60
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH judged AS (
    SELECT
        row_id,
        start_time_unix_nano,
        trace_id,
        span_id,
        -- OpenAI and Azure, Anthropic, Bedrock, Gemini
        coalesce(
            list_has_any(
                list_transform(finish_reasons, lambda reason: lower(reason)),
                [
                    'content_filter', 'content_filtered', 'refusal', 'guardrail_intervened',
                    'safety', 'recitation', 'blocklist', 'prohibited_content', 'spii'
                ]
            ),
            false
        ) AS is_stopped,
        status = 'error'
            AND regexp_matches(
                lower(coalesce(error_type, '') || ' ' || coalesce(error, '')),
                'content.?filter|content management policy|responsibleai|prohibited_content'
                    || '|blocked by safety'
            ) AS is_refused
    FROM runs
    WHERE run_type = 'llm'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND (finish_reasons IS NOT NULL OR status = 'error')
),
picked AS (
    SELECT row_id, is_stopped
    FROM judged
    WHERE is_stopped OR is_refused
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    run.model,
    if(picked.is_stopped, 'stopped', 'refused') AS kind,
    run.finish_reasons,
    run.error_type,
    run.duration_ms,
    run.start_time,
    run.session_id,
    run.user_id,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
