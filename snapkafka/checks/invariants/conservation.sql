-- Nothing is lost and nothing made: the amounts in a table and those in flight add up to the same at every instant. A value
-- that has no amount does not add up either: what cannot be read may be money.
--
--   total        what it has to add up to
--   table        the table that holds the amounts
--   amount       JSON path of the amount in a value of the table; default: the value itself
--   message      JSON path of the amount in a message; default: the field "amount"
--   topics       comma-separated topics whose messages carry amounts; default: all that are in flight
--   tolerance    how far off the sum may be (amounts are taken to six decimals)
--   without      how many values may have no amount; default: none
WITH parts AS (
    SELECT 'in table ${table}' AS part, TRY_CAST(get_json_object(value, '${amount:$}') AS DECIMAL(38, 6)) AS amount
    FROM state
    WHERE `table` = '${table}'
    UNION ALL
    SELECT 'in flight' AS part, TRY_CAST(get_json_object(value, '${message:$.amount}') AS DECIMAL(38, 6)) AS amount
    FROM messages
    WHERE '${topics:}' = '' OR array_contains(split('${topics:}', ','), topic)
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
