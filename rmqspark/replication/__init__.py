"""The log of a master goes to its slaves, byte for byte (RocketMQ's HA, without its controller)."""
