-- title: Failed retrievers
-- description: Retriever runs that raised (outcome error) or found nothing (outcome empty), newest first.
-- why: An answer built on no documents, or on none at all after an error, is where most wrong answers of a retrieval chain begin.
-- example: otelchain query failed-retrievers --empty false --since 24h
-- next: 'otelchain show TRACE_ID' shows what was answered without the documents; 'otelchain query empty-retrievals' counts how often nothing was found.
-- finding: Retriever {name} failed with {error_type}.
-- weight: 60
-- param: empty = true  also show retrievers that returned no document
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH picked AS (
    SELECT row_id, trace_id, parent_span_id
    FROM runs
    WHERE run_type = 'retriever'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
        AND (status = 'error' OR ($empty::BOOLEAN AND status = 'ok' AND document_count = 0))
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
),
parents AS (
    SELECT picked.row_id, any_value(run.name) AS name
    FROM picked
    JOIN runs AS run
        ON run.trace_id = picked.trace_id AND run.span_id = picked.parent_span_id
    GROUP BY picked.row_id
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    if(run.status = 'error', 'error', 'empty') AS outcome,
    run.duration_ms,
    run.start_time,
    run.inputs AS query_text,
    run.error_type,
    run.error,
    run.document_count,
    parents.name AS parent_name,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN parents USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
