"""Recall that has to hold up: generated chats, real two-hop questions, and what people use instead, in one table."""
