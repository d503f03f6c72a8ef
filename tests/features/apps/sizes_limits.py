"""What `sizes` and its test share: limits, and values that are just below them."""

TOPIC_BYTES = 2_000
CLIENT_BYTES = 3_000
#: A batch of one record takes 61 bytes and some 15 around key and value; our header takes 23 to 32 more.
TOPIC_FITS = 1_910
#: aiokafka estimates what surrounds a record generously.
CLIENT_FITS = 2_890
#: Two in one batch.
PAIR_FITS = 940
