"""`v14 doctor`: what is wrong with an installation, and what to do. Standard library only.

finding.py      one finding: ok, warn or fail, and a remedy
packages.py     Python and the packages that the memory stands on
gpu.py          what nvidia-smi says
engine.py       whether SGLang finds the plugin, and has every symbol that it touches
directory.py    a V14 directory
store.py        the directory of the stores
environment.py  SGLANG_V14_* variables
probing.py      runs steps.py in a process of its own and reads what it says
steps.py        everything that needs the packages: the only file here that imports them
run.py          all of it, as a table or as JSON
"""
