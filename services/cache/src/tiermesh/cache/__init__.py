"""Keeps answers in Redis.

servicer      proto in, proto out, span attributes
layered       the exact tier first, then `semantic`
answers       finds answers, over a store that may be slow or gone
keeping       stores them, as many as come together in one step
admission     which answers may be kept; `refusals` and `freshness` are parts of that
keys, codec   where an answer is filed, and what it is as bytes that prove themselves
invalidation  forgets answers; `generations`, `tags`, `tokens` and `forgotten` keep them from coming back
runs          who runs what, for requests that are the same; `run_tokens` names one run
local         this replica's memory in front of the store; `follower` keeps it true, `eviction` small
access        bounds what the store may cost a caller; `circuit` says whether to try it at all
semantic      whether another question's answer will do
embedder_*    the model that compares questions, made by `fetch_embedder`
*command*     the command line's part; the service needs none of it
"""
