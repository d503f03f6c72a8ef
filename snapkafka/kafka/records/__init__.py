"""Records of ordinary topics, read and appended."""
