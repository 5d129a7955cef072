"""Generated protobuf messages and gRPC stubs: the only thing services share on the wire."""
