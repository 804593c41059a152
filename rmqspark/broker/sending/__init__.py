"""The way of a send: from its request to a draft, from all drafts of a turn to one append, from places to receipts.

common      intake → drafting, batches → sends → appender → receipts
plain       usual_sends (send_stencils) → appender → receipts: told apart early, made and answered in one loop
hundreds    send_tables (ragged_tables) → appender → receipt_sheets: read, stored and answered in columns
"""
