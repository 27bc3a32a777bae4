"""Transactions: a transactional id's producer, its transaction's partitions, and its end (KIP-98, 890)."""
