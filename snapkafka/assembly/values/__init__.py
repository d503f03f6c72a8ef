"""Bytes of keys and values as text, by the codecs of their tables: one decoder for both engines."""
