"""The parts of consumers that read: where each queue stands, what is fetched ahead, records as messages."""
