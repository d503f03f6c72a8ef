"""Tables as Parquet, on disks and in object storage, with their digests."""
