"""Spark beside Muster: a session with Spark's own Kafka source, and jobs. Needs the extra `spark` and Java.

It knows the daemon only through the wire: everything here works on any Kafka cluster. Nothing is imported
before it is needed, for PySpark is heavy.
"""
