"""The history of groups on an existing Kafka, inferred from its `__consumer_offsets`, read only."""
