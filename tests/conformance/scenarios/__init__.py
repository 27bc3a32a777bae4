"""The scenarios, a module for each part of docs/kafka.md. Each is one function: read it as the script it is."""
