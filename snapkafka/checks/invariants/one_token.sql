-- A token is in exactly one place: in the table of one holder, or in one message. Of a holder whose value could not be
-- decoded nobody knows.
--
--   table     the table whose rows stand for holders
--   holds     JSON path of the field that is true for who holds the token; default: the value itself
--   topics    comma-separated topics whose messages are the token
WITH places AS (
    SELECT
        'held by ' || coalesce(key, '?') AS place,
        changelog_topic AS topic,
        `partition`,
        changelog_offset AS `offset`
    FROM state
    WHERE `table` = '${table}' AND lower(get_json_object(value, '${holds:$}')) = 'true'
    UNION ALL
    SELECT 'on its way' AS place, topic, `partition`, `offset`
    FROM messages
    WHERE array_contains(split('${topics}', ','), topic)
),
counted AS (
    SELECT count(*) AS tokens FROM places
)
SELECT tokens, place, topic, `partition`, `offset`
FROM counted LEFT JOIN places
WHERE tokens <> 1
UNION ALL
SELECT NULL, 'nobody knows of ' || coalesce(key, '?') || ': ' || why_undecoded, changelog_topic, `partition`, changelog_offset
FROM state
WHERE `table` = '${table}' AND why_undecoded IS NOT NULL
