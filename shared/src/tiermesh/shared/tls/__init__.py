"""Who is who in the mesh by certificate, and the files that prove it.

Reading files needs `cryptography`, which takes a while to import: `tiermesh.shared.tls.files` is imported where TLS is on.
"""

from tiermesh.shared.tls.identity import INGRESS, Identity, callers_of, identity_of, members_of
from tiermesh.shared.tls.pem import Pem

__all__ = ["INGRESS", "Identity", "Pem", "callers_of", "identity_of", "members_of"]
