"""Local stack: Kafka, Valkey and the services as child processes on loopback."""
