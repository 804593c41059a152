"""A cluster from moment to moment, for those who watch it: consoles, `rmq top`."""
