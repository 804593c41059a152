"""How the members of a consumer group divide its queues: allocation, and handing queues over. Pure."""
