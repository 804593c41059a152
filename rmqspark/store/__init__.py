"""The message store: RocketMQ's files, one writer, no sockets."""
