"""Clients' own metrics (KIP-714): what they are asked for, what they push, what it says of a member."""
