"""`rmq dashboards`: Grafana dashboards and Prometheus rules for the metrics of brokers, from two tables."""
