"""Transactions: who writes under a transactional id, what its transaction touches, how it ends (KIP-98, 890)."""
