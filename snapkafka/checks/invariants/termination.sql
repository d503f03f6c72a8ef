-- The computation has ended: nothing is in flight. (Chandy and Lamport's own example of a stable property.)
--
--   topics    comma-separated topics to look at; default: all
SELECT topic, `partition`, `offset`, sender_app, receiver_app
FROM messages
WHERE '${topics:}' = '' OR array_contains(split('${topics:}', ','), topic)
