-- No amount in a table is below zero (or below another floor). A value that has no amount is not known to be above it.
--
--   table     the table that holds the amounts
--   amount    JSON path of the amount in a value; default: the value itself
--   floor     the least that an amount may be; default: 0
SELECT changelog_topic AS topic, "partition", changelog_offset AS "offset", key, amount
FROM (
    SELECT *, TRY(value->>'${amount:$}') AS amount
    FROM state
    WHERE table_name = '${table}'
)
WHERE coalesce(TRY_CAST(amount AS DECIMAL(38, 6)) < CAST(${floor:0} AS DECIMAL(38, 6)), TRUE)
