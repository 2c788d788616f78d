"""The functional check: a table of questions put to a live server, and what came back.

`facts` makes the questions from a seed, `server` starts and stops SGLang, `client` talks to it, `suite` asks,
`rows` holds the result and `table` prints it.
"""
