"""What a broker measures, under RocketMQ's names and ours, and how that is told."""
