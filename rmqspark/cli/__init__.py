"""The command line rmq: `verbs.py` says where each verb is, `terminal/` has what all of them have in common."""
