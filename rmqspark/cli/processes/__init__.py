"""Processes that `rmq` starts: what they are told, how they say that they serve, and what ends them, whatever becomes
of who started them."""
