"""What a broker remembers: topics, groups, offsets, locks, each a table with its file under config/."""
