"""The stories that a topic of group events tells, as plain Python: rebalances, storms, sessions of members, churn.

One group's events go in, in order, and rows of the tables come out; what is not over yet is carried in a state
that fits into JSON. `buckets` is where Spark comes in, and the only module here that knows of it.
"""
