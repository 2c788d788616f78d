"""Every message that the package stops with, and the test that provokes it.

messages.py   what the source says, read with `ast`
recorder.py   a pytest plugin that notes which test provoked which message
provoked.json what it noted
__main__.py   `python -m tests.errors [pytest arguments]` records, and writes docs/errors.md anew
"""
