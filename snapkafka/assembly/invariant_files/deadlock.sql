-- Nobody waits in a circle. A table says who waits for whom: its key waits for what is named in its value. Since the
-- snapshot is consistent, a circle found in it is one that still stands (a deadlock is a stable property). Of who could not
-- be decoded nobody knows: a row too, of no steps.
--
--   table      the table: one row per waiting party
--   waits_for  JSON path of the name of whom it waits for; default: the value itself
--   longest    how many parties a circle may have to be found; default: 64
WITH RECURSIVE waits AS (
    SELECT key AS party,
           CASE WHEN '${waits_for:$}' = '$' THEN value ELSE TRY(value->>'${waits_for:$}') END AS waits_for
    FROM state
    WHERE table_name = '${table}'
),
paths (first, last, steps, path) AS (
    SELECT party, waits_for, 1, party || ' -> ' || waits_for FROM waits
    UNION ALL
    SELECT first, waits.waits_for, steps + 1, path || ' -> ' || waits.waits_for
    FROM paths JOIN waits ON paths.last = waits.party
    WHERE paths.first <> paths.last AND steps < ${longest:64}
)
SELECT path AS circle, steps FROM paths WHERE first = last
UNION ALL
SELECT 'unknown: ' || coalesce(key, '?') || ': ' || why_undecoded, 0
FROM state
WHERE table_name = '${table}' AND why_undecoded IS NOT NULL
