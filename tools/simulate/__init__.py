"""Synthetic histories to try analytics on: invented groups, recorded by the coordinator's own core."""
