"""What follows from a topic of group events, as plain Python: rebalances, storms, sessions of members, churn.

One group's events go in, in order, and rows of the tables come out; what is not over yet is carried in a state
that fits into JSON. `stateful` is where Spark comes in; it and `worker` alone know of it.
"""
