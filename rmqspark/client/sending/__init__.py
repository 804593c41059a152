"""The parts of producers: a message made ready, its queue, tries, and what its sender is asked about it."""
