-- title: Failed retrievers
-- description: Retriever runs that raised (outcome error) or found nothing (outcome empty), newest first.
-- why: An answer built on no documents, or on none at all after an error, is where most wrong answers of a retrieval chain begin.
-- param: empty = true  also show retrievers that returned no document
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH picked AS (
    SELECT row_id
    FROM runs
    WHERE run_type = 'retriever'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND (status = 'error' OR ($empty::BOOLEAN AND status = 'ok' AND document_count = 0))
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $limit::BIGINT
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
    parent.name AS parent_name,
    run.service_name
FROM picked
JOIN runs AS run USING (row_id)
LEFT JOIN runs AS parent
    ON parent.trace_id = run.trace_id AND parent.span_id = run.parent_span_id
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id;
