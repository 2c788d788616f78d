"""Keeping events and their traces: durable, by namespace, read back exactly or not at all."""
