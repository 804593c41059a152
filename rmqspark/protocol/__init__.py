"""RocketMQ's bytes, sans-IO: frames, commands, headers, bodies, the record layout, and the bulk codec."""
