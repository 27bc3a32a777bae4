"""Records of the coordinator's topics, decoded many at a time on Spark's executors: Arrow in, Arrow out.

It needs `protocol` and the schemas of the records, and nothing of a daemon. `offsets` is `__consumer_offsets`.
"""
