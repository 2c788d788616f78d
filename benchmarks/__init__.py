"""Measurements: one command per table, plain SGLang and SGLang with memory side by side."""
