"""Bringing events back: rotating keys, building spans, and where spans stand in conversations."""
