-- The spans of turns {first} to {last}, of {turns} in all: each is a copy of a template under ids, a
-- session, a user and times of its own. Every choice comes from the digest of seed and number.
WITH numbered AS (
    SELECT
        turn,
        -- Eight sessions go on side by side, with one to nine turns each.
        turn // 32 * 8
            + [0,1,2,0,3,1,0,4, 5,0,2,1,6,0,4,0, 7,1,0,5,2,0,6,1, 3,0,4,2,0,5,6,1][turn % 32 + 1]
            AS session,
        md5('{seed}/turn/' || turn) AS digest,
        ({turns} - turn) / {turns}::DOUBLE * {days} / 7 AS weeks  -- before the end
    FROM range({first}::BIGINT, {last}::BIGINT) AS numbers(turn)
),
-- Fewer at the ends of a week and of a day, more in the middle; what is copied there keeps its order.
weekly AS (
    SELECT *, 7 * (weeks + 0.05 * sin(2 * pi() * weeks)) AS days FROM numbered
),
chosen AS (
    SELECT
        turn,
        digest,
        session,
        {end_unix_nano}::BIGINT
            - ((days + 0.12 * sin(2 * pi() * days)) * 86_400e9)::BIGINT AS turn_unix_nano,
        ('0x' || digest[1:8])::BIGINT AS luck,
        ('0x' || digest[9:14])::BIGINT AS other_luck,
        ('0x' || md5('{seed}/session/' || session)[1:8])::BIGINT AS session_luck
    FROM weekly
),
timed AS (
    SELECT
        chosen.*,
        range.first + luck % range.turns AS template,
        -- Most turns take about as long as their template, one in a hundred eight times that.
        (0.6 + other_luck % 1000 / 1000) * if(other_luck % 100 = 7, 8, 1) AS slowness
    FROM chosen
    JOIN demo_services AS service
        ON session_luck % 100 >= service.from_percent
        AND session_luck % 100 < service.to_percent
    JOIN demo_ranges AS range
        ON range.service = service.number
        AND range.release = (turn_unix_nano >= {release_unix_nano}::BIGINT)::INTEGER
),
copied AS (
    SELECT
        template.* EXCLUDE (turn, trace, place, parent_place),
        timed.turn,
        timed.digest,
        timed.luck,
        timed.session,
        timed.session_luck,
        md5(timed.digest || template.trace) AS new_trace_id,
        left(md5(timed.digest || template.place), 16) AS new_span_id,
        left(md5(timed.digest || template.parent_place), 16) AS new_parent_span_id,
        turn_unix_nano
            + ((template.start_time_unix_nano - {base_unix_nano}::BIGINT) * slowness)::BIGINT
            AS new_start,
        turn_unix_nano
            + ((template.end_time_unix_nano - {base_unix_nano}::BIGINT) * slowness)::BIGINT
            AS new_end,
        concat_ws('-', digest[1:8], digest[9:12], '4' || digest[13:15], '8' || digest[16:18])
            AS new_run_id,
        'chat-' || timed.session AS new_session_id,
        'user-' || (timed.session_luck % 5000) AS new_user_id
    FROM timed
    JOIN demo_templates AS template ON template.turn = timed.template
    -- Lost on the way, so that what hangs below has no parent.
    WHERE NOT (luck % 500 = 3 AND template.place = 1)
        AND (template.run_status = 'pending') = {pending}
)
SELECT
    * EXCLUDE (
        turn, digest, luck, session, session_luck, new_trace_id, new_span_id, new_parent_span_id,
        new_start, new_end, new_run_id, new_session_id, new_user_id
    ) REPLACE (
        new_trace_id AS trace_id,
        new_span_id AS span_id,
        if(parent_span_id IS NULL, NULL, new_parent_span_id) AS parent_span_id,
        new_start AS start_time_unix_nano,
        new_end AS end_time_unix_nano,
        -- Batches go every five seconds; one in a thousand waits out an outage in the spool.
        new_end + (luck % 5000 + if(luck % 1000 = 11, 300_000, 0)) * 1_000_000
            AS received_time_unix_nano,
        replace(
            replace(replace(attributes, '@run@', new_run_id), '@session@', new_session_id),
            '@user@',
            new_user_id
        ) AS attributes,
        replace(replace(metadata, '@session@', new_session_id), '@user@', new_user_id) AS metadata,
        replace(run_id, '@run@', new_run_id) AS run_id,
        replace(parent_run_id, '@run@', new_run_id) AS parent_run_id,
        replace(tool_call_id, '@run@', new_run_id) AS tool_call_id,
        replace(langgraph_checkpoint_ns, '@run@', new_run_id) AS langgraph_checkpoint_ns,
        if(session_id IS NULL, NULL, new_session_id) AS session_id,
        if(user_id IS NULL, NULL, new_user_id) AS user_id
    )
FROM copied
