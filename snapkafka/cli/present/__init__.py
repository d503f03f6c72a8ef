"""Results as people read them: tables and plans."""
