"""RocketMQ's SQL92 filter: conditions over the properties of messages. `filter.py` is the way in.

text → `syntax` (grammar) with `building` (rules) → `tree` → `compiled` (closures), which compare by `values`.
"""
