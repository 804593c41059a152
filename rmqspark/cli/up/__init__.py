"""`rmq up`: which servers there are, in which processes, and who is told of them."""
