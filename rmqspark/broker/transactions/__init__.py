"""A broker's part in transactions: half messages of stock producers, and batches of Spark's."""
