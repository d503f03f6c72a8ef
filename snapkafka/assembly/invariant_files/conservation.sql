-- Nothing is lost and nothing made: the amounts in a table and those in flight add up to the same at every instant. A value
-- that has no amount does not add up either: what cannot be read may be money.
--
-- A record that several apps read is one amount, and in flight until it is taken in where amounts go: by the apps that are
-- named, of these by those that have the table, if any that reads the topic has. Where two are left, and only one of them
-- has taken it in, is unknown: the check proves nothing then, and reports it.
--
--   total        what it has to add up to
--   table        the table that holds the amounts
--   amount       JSON path of the amount in a value of the table; default: the value itself
--   message      JSON path of the amount in a message; default: the field "amount"
--   topics       comma-separated topics whose messages carry amounts; default: all that are in flight
--   apps         comma-separated apps whose tables and messages count; default: all
--   tolerance    how far off the sum may be (amounts are taken to six decimals)
--   without      how many values may have no amount; default: none
WITH readers AS (
    SELECT topic, coalesce(list(DISTINCT holder) FILTER (holder IS NOT NULL), list(DISTINCT app)) AS apps
    FROM positions LEFT JOIN (SELECT DISTINCT app AS holder FROM state WHERE table_name = '${table}') ON app = holder
    WHERE '${apps:}' = '' OR list_contains(string_split('${apps:}', ','), app)
    GROUP BY topic
),
moving AS (
    SELECT TRY_CAST(TRY(value->>'${message:$.amount}') AS DECIMAL(38, 6)) AS amount
    FROM (
        SELECT *, CASE WHEN apps IS NULL THEN receivers ELSE list_intersect(receivers, apps) END AS left_to
        FROM in_flight LEFT JOIN readers USING (topic)
    )
    WHERE CASE  -- in this order: what raises an error comes last
        WHEN '${topics:}' <> '' AND NOT list_contains(string_split('${topics:}', ','), topic) THEN FALSE
        WHEN len(left_to) = 0 OR ('${apps:}' <> '' AND apps IS NULL) THEN FALSE
        WHEN coalesce(len(apps) = len(left_to), TRUE) THEN TRUE
        ELSE error('not all of ' || array_to_string(list_sort(apps), ' and ') || ' have taken in ' || topic || '['
            || "partition" || ']@' || "offset" || ': say by --set apps=... who moves its amount')
    END
),
parts AS (
    SELECT 'in table ${table}' AS part, TRY_CAST(TRY(value->>'${amount:$}') AS DECIMAL(38, 6)) AS amount
    FROM state
    WHERE table_name = '${table}' AND ('${apps:}' = '' OR list_contains(string_split('${apps:}', ','), app))
    UNION ALL
    SELECT 'in flight' AS part, amount FROM moving
),
sums AS (
    SELECT
        CAST(${total} AS DECIMAL(38, 6)) AS expected,
        coalesce(sum(amount), 0) AS found,
        coalesce(sum(amount) FILTER (part = 'in flight'), 0) AS in_flight,
        count(*) FILTER (amount IS NULL) AS without_amount
    FROM parts
)
SELECT expected, found, in_flight, without_amount
FROM sums
WHERE without_amount > ${without:0} OR NOT abs(found - expected) <= CAST(${tolerance:0} AS DECIMAL(38, 6))
