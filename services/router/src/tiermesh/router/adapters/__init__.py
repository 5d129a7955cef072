"""The router's ports over gRPC."""
