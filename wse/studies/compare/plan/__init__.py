"""Ranking of machines that meet latency targets, for one or several lengths of requests."""
