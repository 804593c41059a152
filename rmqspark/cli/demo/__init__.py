"""`rmq demo`: real flights through a real queue and Spark, compared with pandas."""
