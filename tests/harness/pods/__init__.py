"""A cluster of one machine: the pods of a rendered chart, each in a network namespace, from built images.

No Kubernetes is behind it. What a kubelet and a cluster's DNS do for these pods is done here: volumes, users,
read-only file systems, probes, and names that lead to what is ready. Needs Linux, root, Buildah with the images in its
storage, iproute2 and dnsmasq.
"""
