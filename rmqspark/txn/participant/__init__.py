"""A participant of Spark's batches: half batches held, voted for, completed or dropped."""
