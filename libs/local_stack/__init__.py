"""The local stack: a real Kafka and a real Valkey on loopback, and the parts that run on them."""
