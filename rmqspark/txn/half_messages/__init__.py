"""RocketMQ's half messages: those of stock producers, with op records and check-back."""
