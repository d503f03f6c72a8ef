-- The computation has ended: nothing is in flight and nobody is busy. (Chandy and Lamport's own example of a stable
-- property.) What waits in topics that outsiders write is no part of it.
--
--   topics    comma-separated topics to look at; default: all. One without a reader is a mistake, and has a row as well
--   table     the table whose values say who is busy; default: none does
--   busy      JSON path of the field that is true for who is busy; default: the value itself
SELECT topic, "partition", "offset", sender_app, receivers, 'in flight' AS why
FROM in_flight
WHERE '${topics:}' = '' OR list_contains(string_split('${topics:}', ','), topic)
UNION ALL
SELECT changelog_topic, "partition", changelog_offset, app, NULL,
       coalesce('unknown: ' || why_undecoded, 'busy: ' || coalesce(key, '?'))
FROM state
WHERE table_name = '${table:}' AND (why_undecoded IS NOT NULL OR lower(TRY(value->>'${busy:$}')) = 'true')
UNION ALL
SELECT topic, NULL, NULL, NULL, NULL, 'nobody reads such a topic'
FROM (SELECT unnest(string_split('${topics:}', ',')) AS topic)
WHERE topic <> '' AND topic NOT IN (SELECT topic FROM positions)
