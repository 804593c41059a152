"""Messages that are to be delivered later, by RocketMQ's levels."""
