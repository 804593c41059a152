"""What a reading task does: fetches its ranges, chooses what is asked for, and hands it to Spark as columns."""
