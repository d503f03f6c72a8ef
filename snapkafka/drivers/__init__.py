"""Drivers: what does the I/O for `protocol.WorkerProtocol` and decides nothing. Strangers to each other."""
