-- title: Tool arguments that break their schema
-- description: Tool calls whose arguments do not fit, newest first. Problem rejected: the tool's own validation refused them. The others compare the arguments with the definition that the model was given in the same trace, where it is recorded: a required one is missing, one has the wrong type, or one is not allowed. Only the newest tool runs are examined; values that the redactor replaced fit every type.
-- why: A model that misreads a tool calls it wrongly every time, and often answers all the same.
-- example: otelchain query tool-argument-errors --examine 500 --since 24h
-- next: 'otelchain show TRACE_ID --full' shows the arguments; describe the argument in the tool's schema, with an example.
-- finding: A call of tool {name} breaks the tool's schema: {problem}.
-- weight: 55
-- param: examine = 2000  how many of the newest tool runs to look at
-- param: trace_id =   only runs of this trace, by its whole id; empty for every trace
-- param: since = 1970-01-01  only runs that started at or after this UTC time
-- param: until = 2262-01-01  only runs that started before this UTC time
-- param: service =   only runs of this service; empty for every service
-- param: limit = 100  number of rows to show
WITH newest AS (
    SELECT row_id, trace_id
    FROM runs
    WHERE run_type = 'tool'
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS)
        AND start_time_unix_nano < epoch_ns($until::TIMESTAMP_NS)
        AND ($service = '' OR service_name = $service)
        AND ($trace_id = '' OR trace_id = $trace_id)
    ORDER BY start_time_unix_nano DESC, trace_id, span_id
    LIMIT $examine::BIGINT
),
calls AS (
    SELECT
        row_id,
        trace_id,
        name,
        coalesce(status IN ('error', 'handled_error') AND error_type LIKE '%ValidationError', false)
            AS is_rejected,
        if(json_valid(inputs), inputs::JSON, NULL) AS arguments
    FROM newest
    JOIN runs USING (row_id, trace_id)
),
models AS (
    SELECT row_id
    FROM runs
    WHERE run_type = 'llm'
        AND dialect IN ('otelchain', 'gen_ai', 'openlit', 'openllmetry')
        AND trace_id IN (SELECT trace_id FROM newest)
        -- The model was asked before its tool ran; few traces take longer than an hour.
        AND start_time_unix_nano >= epoch_ns($since::TIMESTAMP_NS) - 3_600_000_000_000
),
definitions AS (
    SELECT DISTINCT trace_id, attributes ->> 'gen_ai.tool.definitions' AS tools
    FROM spans
    JOIN models ON models.row_id = spans.rowid
),
schemas AS (
    -- OpenAI's form and Anthropic's; several agents of a trace may have a tool of one name.
    SELECT trace_id, name, any_value(schema) AS schema
    FROM (
        SELECT
            defined.trace_id,
            coalesce(tool.value ->> '$.function.name', tool.value ->> '$.name') AS name,
            coalesce(
                tool.value -> '$.function.parameters',
                tool.value -> '$.input_schema',
                tool.value -> '$.parameters'
            ) AS schema
        FROM (SELECT * FROM definitions WHERE json_valid(tools)) AS defined,
            json_each(defined.tools) AS tool
    )
    GROUP BY trace_id, name
    HAVING count(DISTINCT schema) = 1
),
objects AS (
    SELECT calls.row_id, calls.arguments, schemas.schema
    FROM calls
    JOIN schemas USING (trace_id, name)
    WHERE json_type(calls.arguments) = 'OBJECT'
        AND json_type(schemas.schema) = 'OBJECT'
),
given AS (
    SELECT objects.row_id, entry.key, entry.type, entry.value
    FROM objects, json_each(objects.arguments) AS entry
),
properties AS (
    SELECT objects.row_id, entry.key, entry.value ->> '$.type' AS type
    FROM (SELECT * FROM objects WHERE json_type(schema, '$.properties') = 'OBJECT') AS objects,
        json_each(objects.schema, '$.properties') AS entry
),
required AS (
    SELECT objects.row_id, entry.value ->> '$' AS key
    FROM (SELECT * FROM objects WHERE json_type(schema, '$.required') = 'ARRAY') AS objects,
        json_each(objects.schema, '$.required') AS entry
),
problems AS (
    SELECT row_id, 'rejected' AS problem, NULL AS key
    FROM calls
    WHERE is_rejected
    UNION ALL
    SELECT row_id, 'missing', key
    FROM required
    ANTI JOIN given USING (row_id, key)
    UNION ALL
    SELECT row_id, 'wrong type', key
    FROM given
    JOIN properties USING (row_id, key)
    WHERE given.type <> 'NULL'
        AND NOT contains(given.value::VARCHAR, '[REDACTED')
        AND NOT CASE properties.type
            WHEN 'string' THEN given.type = 'VARCHAR'
            WHEN 'integer' THEN given.type IN ('BIGINT', 'UBIGINT', 'HUGEINT')
            WHEN 'number' THEN given.type IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')
            WHEN 'boolean' THEN given.type = 'BOOLEAN'
            WHEN 'array' THEN given.type = 'ARRAY'
            WHEN 'object' THEN given.type = 'OBJECT'
            ELSE true
        END
    UNION ALL
    SELECT given.row_id, 'not allowed', given.key
    FROM given
    JOIN objects USING (row_id)
    ANTI JOIN properties USING (row_id, key)
    WHERE objects.schema ->> '$.additionalProperties' = 'false'
),
picked AS (
    SELECT
        row_id,
        list(DISTINCT problem ORDER BY problem) AS problems,
        list(DISTINCT key ORDER BY key) FILTER (key IS NOT NULL) AS arguments
    FROM problems
    GROUP BY row_id
)
SELECT
    run.trace_id,
    run.span_id,
    run.name,
    array_to_string(picked.problems, ', ') AS problem,
    picked.arguments,
    run.status,
    run.duration_ms,
    run.start_time,
    run.error_type,
    run.service_name,
    run.inputs AS tool_input
FROM picked
JOIN runs AS run USING (row_id)
ORDER BY run.start_time_unix_nano DESC, run.trace_id, run.span_id
LIMIT $limit::BIGINT;
