"""The way out of a Faust app: aiokafka stamps as it appends (`aio_client`), and what is put into Faust's buffer keeps
the colour of the event that puts it there."""
