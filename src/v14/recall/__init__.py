"""Recall: from a cue and the stored keys to the events that a request needs."""
