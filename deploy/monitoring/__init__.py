"""Grafana dashboards and Prometheus alert rules, written from one source: ``python -m deploy.monitoring``."""
