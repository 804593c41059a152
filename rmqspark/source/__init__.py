"""Reading topics from Spark: options, pure planning, Arrow, a thin reader."""
