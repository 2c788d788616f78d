"""Cutting what was read into events."""
