"""What the driver decides: how queues stand, what the next batch holds, and how it is dealt to tasks."""
