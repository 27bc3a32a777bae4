"""The matrix of client libraries on secured listeners: the brokers, the cells and what is expected of each."""
