"""Transactions: the coordinator's ledger, the participants' half batches, the half messages of stock producers."""
