"""`rmq top`: a live view of a cluster."""
