"""The log itself: files of fixed length, the run of bytes over them, and records in it."""
