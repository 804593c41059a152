"""A task that writes: rows are dealt to queues, and leave in bulks, some of which may be on their way."""
