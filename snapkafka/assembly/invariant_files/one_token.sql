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
    SELECT topic, coalesce(list(DISTINCT holder) FILTER (holder IS NOT NULL), list(DISTINCT app)) AS apps
    FROM positions LEFT JOIN (SELECT DISTINCT app AS holder FROM state WHERE table_name = '${table}') ON app = holder
    WHERE '${apps:}' = '' OR list_contains(string_split('${apps:}', ','), app)
    GROUP BY topic
),
holders AS (
    SELECT * FROM state
    WHERE table_name = '${table}' AND ('${apps:}' = '' OR list_contains(string_split('${apps:}', ','), app))
),
places AS (
    SELECT
        'held by ' || coalesce(key, '?') AS place,
        changelog_topic AS topic,
        "partition",
        changelog_offset AS "offset"
    FROM holders
    WHERE lower(TRY(value->>'${holds:$}')) = 'true'
    UNION ALL
    SELECT 'in flight' AS place, topic, "partition", "offset"
    FROM (
        SELECT *, CASE WHEN apps IS NULL THEN receivers ELSE list_intersect(receivers, apps) END AS left_to
        FROM in_flight LEFT JOIN readers USING (topic)
    )
    WHERE CASE  -- in this order: what raises an error comes last
        WHEN NOT list_contains(string_split('${topics}', ','), topic) THEN FALSE
        WHEN len(left_to) = 0 OR ('${apps:}' <> '' AND apps IS NULL) THEN FALSE
        WHEN coalesce(len(apps) = len(left_to), TRUE) THEN TRUE
        ELSE error('not all of ' || array_to_string(list_sort(apps), ' and ') || ' have taken in ' || topic || '['
            || "partition" || ']@' || "offset" || ': say by --set apps=... who moves the token')
    END
),
counted AS (
    SELECT count(*) AS tokens FROM places
)
SELECT tokens, place, topic, "partition", "offset"
FROM counted LEFT JOIN places ON TRUE
WHERE tokens <> 1
UNION ALL
SELECT NULL, 'unknown: ' || coalesce(key, '?') || ': ' || why_undecoded, changelog_topic, "partition", changelog_offset
FROM holders
WHERE why_undecoded IS NOT NULL
