"""What applications and Spark tasks use: producers, consumers, administration. Synchronous only."""
