"""The parts of `AdminClient`: topics, groups, messages, users and dead letters, and how a cluster is."""
