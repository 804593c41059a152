"""Commands and the frames around them: what a connection carries, decoded and encoded."""
