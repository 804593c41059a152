"""Messages that are to be delivered later, after the time of a level of RocketMQ's or at a time of their own."""
