"""The parts of a push consumer: what it holds of each queue, whose queues are whose, and the threads around them."""
