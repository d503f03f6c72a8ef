-- No money is made or lost: what lies on accounts and what is in flight add up to what was opened.
-- ${total}: the sum of all opening balances. ${prefix:}: names of topics begin with it in a fork.
WITH on_accounts AS (
    SELECT coalesce(sum(CAST(value AS BIGINT)), 0) AS amount FROM state WHERE table_name = 'balances'
),
on_the_way AS (
    SELECT coalesce(sum(CAST(value->>'$.amount' AS BIGINT)), 0) AS amount
    FROM in_flight
    WHERE topic IN ('${prefix:}transfers', '${prefix:}credits')
)
SELECT on_accounts.amount AS on_accounts, on_the_way.amount AS on_the_way, ${total} AS should_be
FROM on_accounts CROSS JOIN on_the_way
WHERE on_accounts.amount + on_the_way.amount <> ${total}
