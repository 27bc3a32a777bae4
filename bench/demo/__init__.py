"""The demo: real data, a real group with a crash in it, and a Spark job, all through one Muster daemon."""
