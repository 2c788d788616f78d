"""The functional check: a table of questions put to a live server, and what came back.

`questions` has all that is told and asked, made from a seed or read from a file (`own`); `server` starts and stops
SGLang, `client` talks to it, `suite` asks, `rows` holds the result and `table` prints it.
"""
