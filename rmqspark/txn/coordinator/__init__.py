"""The coordinator of Spark's batches: one broker for each transactional id decides, and has it carried out."""
