"""The drivers: they do the I/O for `protocol.WorkerProtocol` and decide nothing. They do not import each other."""
