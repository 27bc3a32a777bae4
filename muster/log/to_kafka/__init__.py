"""A stopped directory of Muster's, made one that Apache Kafka starts on."""
