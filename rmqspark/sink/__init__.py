"""Writing topics from Spark: options, rows to records, a thin writer."""
