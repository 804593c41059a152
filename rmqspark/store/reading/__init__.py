"""Messages on their way out: from queue entries, times and keys to records."""
