"""A history to try analytics on: groups that never were, told by the coordinator that would have served them."""
