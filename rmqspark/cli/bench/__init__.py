"""`rmq bench`: how fast a cluster takes and gives messages."""
