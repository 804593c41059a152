"""Buffers of many byte strings, handled all at once."""
