"""Clients' own metrics (KIP-714): what they are asked for, their pushes, and what is kept of these."""
