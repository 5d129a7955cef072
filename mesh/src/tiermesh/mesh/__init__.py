"""Control plane: xDS snapshots for Envoy, and the local process supervisor."""
