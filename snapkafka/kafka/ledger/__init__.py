"""The topic of the ledger: its settings, appending to it, reading it, and its fold."""
