"""The routes under /api/v1: one file per subject, each a thin word over `reads` and `actions`."""
