"""What applications and Spark tasks use: routes, producer, pull consumer, admin. Synchronous only."""
