"""The key index: from keys to places in the log."""
