"""Client processes for the tests: each is one real client library, reporting what it saw as JSON lines."""
