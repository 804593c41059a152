"""What this machine has for servers and Spark: Java, PySpark, libraries."""
