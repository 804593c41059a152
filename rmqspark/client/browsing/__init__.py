"""Looking at what topics hold, with a `PullConsumer`: in the order of time, between two moments, a few to learn by."""
