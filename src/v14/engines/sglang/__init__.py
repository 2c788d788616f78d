"""SGLang with memory: a plugin of an unmodified engine. Only this folder imports sglang.

plugin.py        entry point: switches, seams, hooks
symbols.py       every symbol of SGLang that is touched, with its parameters
seams.py         looks into its objects; where versions differ
server_args.py   server arguments that the memory does not serve, refused by name
directory.py     which model paths are V14 directories
ticket.py        what the HTTP process tells the scheduler about one request
front.py         HTTP process: whose memory a request has, and what its client is told
reading.py       scheduler process: how one request is read
runtime.py       scheduler process: the memory beside the engine's pools, which the next five work with
arriving.py      scheduler process: a request arrives, what is in place is put into its token ids
cues.py          scheduler process: what it asks the memory with
planning.py      scheduler process: what it recalls, and its way back into the queue
returning.py     scheduler process: which way a span comes back, and what is placed
harvest.py       scheduler process: keys and values on their way to the store
ranks.py         scheduler process: what several of them say to each other
shards.py        which heads each of them has
telling.py       what the first of them tells the others about a request
recurrent.py     scheduler process: the pool of recurrent states, and what recurrent layers are given to read
recording.py     scheduler process: what one request did to the recurrent states
transfer.py      scheduler process: tensors on their way to the device
metrics.py       Prometheus metrics, under SGLang's own /metrics
timing.py        scheduler process: what reading a span again costs
hooks/           the functions that SGLang calls, one file per concern
"""
