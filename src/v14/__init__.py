"""Memory for served language models: what a model computed while reading is recalled in later requests."""

__version__ = "0.1.0"
