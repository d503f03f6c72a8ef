-- No message waits for too long: none in flight is older at the trigger than so many seconds, by the clock of its producer
-- (or of its topic). A message without a time is not known to be younger: a row as well.
--
--   seconds   how old a message in flight may be
--   topics    comma-separated topics to look at; default: all
SELECT topic, "partition", "offset", sender_app, receivers, triggered_ms - timestamp_ms AS age_ms
FROM in_flight CROSS JOIN (SELECT max(epoch_ms(triggered_at)) AS triggered_ms FROM processes)
WHERE ('${topics:}' = '' OR list_contains(string_split('${topics:}', ','), topic))
    AND coalesce(triggered_ms - timestamp_ms > 1000 * ${seconds}, TRUE)
