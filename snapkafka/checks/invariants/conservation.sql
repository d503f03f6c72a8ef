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
    SELECT topic, CASE WHEN count(holder) > 0 THEN collect_set(holder) ELSE collect_set(app) END AS apps
    FROM positions LEFT JOIN (SELECT DISTINCT app AS holder FROM state WHERE table_name = '${table}') ON app = holder
    WHERE '${apps:}' = '' OR array_contains(split('${apps:}', ','), app)
    GROUP BY topic
),
in_flight AS (
    SELECT max(TRY_CAST(get_json_object(value, '${message:$.amount}') AS DECIMAL(38, 6))) AS amount
    FROM messages LEFT JOIN readers USING (topic)
    WHERE ('${topics:}' = '' OR array_contains(split('${topics:}', ','), topic))
        AND ('${apps:}' = '' OR array_contains(split('${apps:}', ','), receiver_app))
        AND coalesce(array_contains(apps, receiver_app), TRUE)
    GROUP BY topic, `partition`, `offset`, apps
    HAVING coalesce(size(apps), 0) <= count(DISTINCT receiver_app) OR CAST(raise_error(
        'not all of ' || array_join(array_sort(apps), ' and ') || ' have taken in ' || topic || '[' || `partition` || ']@'
        || `offset` || ': say by --set apps=... who moves its amount') AS BOOLEAN)
),
parts AS (
    SELECT 'in table ${table}' AS part, TRY_CAST(get_json_object(value, '${amount:$}') AS DECIMAL(38, 6)) AS amount
    FROM state
    WHERE table_name = '${table}' AND ('${apps:}' = '' OR array_contains(split('${apps:}', ','), app))
    UNION ALL
    SELECT 'in flight' AS part, amount FROM in_flight
),
sums AS (
    SELECT
        CAST(${total} AS DECIMAL(38, 6)) AS expected,
        coalesce(sum(amount), 0) AS found,
        coalesce(sum(amount) FILTER (WHERE part = 'in flight'), 0) AS in_flight,
        count(*) FILTER (WHERE amount IS NULL) AS without_amount
    FROM parts
)
SELECT
    CAST(expected AS DOUBLE) AS expected,
    CAST(found AS DOUBLE) AS found,
    CAST(in_flight AS DOUBLE) AS in_flight,
    without_amount
FROM sums
WHERE without_amount > ${without:0} OR NOT abs(found - expected) <= CAST(${tolerance:0} AS DECIMAL(38, 6))
