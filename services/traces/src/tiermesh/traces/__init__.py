"""Keeps the last traces for the terminal, and forwards them to the operator's collector.

receiver    OTLP in
otlp        OTLP spans as records
records     a span as it is kept
store       the last traces, within bounds
servicer    TraceService out
backlog     what still has to be forwarded, within bounds
forwarder   sends it in the background
collector   where the operator's collector is
"""
