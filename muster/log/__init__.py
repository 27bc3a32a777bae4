"""`muster log`: the offline tools for the logs in a directory, Muster's or Kafka's."""
