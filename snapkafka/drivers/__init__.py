"""Drivers: what does the I/O for `protocol.WorkerProtocol` and decides nothing. Independent of each other."""
