"""Chats in English, for models that were trained to chat."""
