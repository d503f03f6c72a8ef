"""The way out of a Faust app: aiokafka stamps as it appends (`aio_client`), and what is put into Faust's buffer keeps
the colour of the event that puts it there.

| module | what it does |
|---|---|
| `producer` | lead Faust's producer and its buffer through here |
| `producer_guard` | skip the guard of a producer that has started |
| `transactions` | sends that count when their transaction is committed |
"""
