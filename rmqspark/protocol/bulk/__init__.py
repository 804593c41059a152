"""Bulks: what rmqspark's own requests carry, whole buffers of messages for one queue or for many."""
