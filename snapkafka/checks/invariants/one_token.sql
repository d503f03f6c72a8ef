-- A token is in exactly one place: in the table of one holder, or in one message. Of a holder whose value could not be
-- decoded nobody knows.
--
-- A message that several apps read is one, and in flight until it is taken in where tokens go: see `conservation`.
--
--   table     the table whose rows stand for holders
--   holds     JSON path of the field that is true for who holds the token; default: the value itself
--   topics    comma-separated topics whose messages are the token
--   apps      comma-separated apps whose tables and messages count; default: all
WITH readers AS (
    SELECT topic, CASE WHEN count(holder) > 0 THEN collect_set(holder) ELSE collect_set(app) END AS apps
    FROM positions LEFT JOIN (SELECT DISTINCT app AS holder FROM state WHERE table_name = '${table}') ON app = holder
    WHERE '${apps:}' = '' OR array_contains(split('${apps:}', ','), app)
    GROUP BY topic
),
holders AS (
    SELECT * FROM state
    WHERE table_name = '${table}' AND ('${apps:}' = '' OR array_contains(split('${apps:}', ','), app))
),
places AS (
    SELECT
        'held by ' || coalesce(key, '?') AS place,
        changelog_topic AS topic,
        `partition`,
        changelog_offset AS `offset`
    FROM holders
    WHERE lower(get_json_object(value, '${holds:$}')) = 'true'
    UNION ALL
    SELECT 'in flight' AS place, topic, `partition`, `offset`
    FROM messages LEFT JOIN readers USING (topic)
    WHERE array_contains(split('${topics}', ','), topic)
        AND ('${apps:}' = '' OR array_contains(split('${apps:}', ','), receiver_app))
        AND coalesce(array_contains(apps, receiver_app), TRUE)
    GROUP BY topic, `partition`, `offset`, apps
    HAVING coalesce(size(apps), 0) <= count(DISTINCT receiver_app) OR CAST(raise_error(
        'not all of ' || array_join(array_sort(apps), ' and ') || ' have taken in ' || topic || '[' || `partition` || ']@'
        || `offset` || ': say by --set apps=... who moves the token') AS BOOLEAN)
),
counted AS (
    SELECT count(*) AS tokens FROM places
)
SELECT tokens, place, topic, `partition`, `offset`
FROM counted LEFT JOIN places
WHERE tokens <> 1
UNION ALL
SELECT NULL, 'unknown: ' || coalesce(key, '?') || ': ' || why_undecoded, changelog_topic, `partition`, changelog_offset
FROM holders
WHERE why_undecoded IS NOT NULL
