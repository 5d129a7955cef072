"""Keeps answers in Redis.

servicer    proto in, proto out, span attributes
answers     lookup, store and invalidate, over a store that may be slow or gone
access      bounds what the store may cost a caller
circuit     whether to try the store at all
keys        where an answer is filed
codec       an answer as bytes that prove themselves
admission   which answers may be kept
"""
