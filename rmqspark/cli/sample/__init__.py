"""What `rmq up --demo` has going on beside the servers: orders that come in, a group that reads them, a Spark query.

Each is a process of its own, which ends when its standard input does: whatever becomes of `rmq up`, nothing is left.
"""
