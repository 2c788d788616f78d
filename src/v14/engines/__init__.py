"""Engines that a memory serves: one folder each, and neither knows the other."""
