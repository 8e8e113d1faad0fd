"""Pools of processes that divide the work of a study, on this computer or on a Ray cluster."""
