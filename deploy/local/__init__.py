"""The embedded stack: real Temporal, a real Kubernetes control plane and moto, on loopback ports, in one folder.

``deploy.local.stack.running_stack`` starts it, ``deploy.local.scene`` puts a cluster and its work on it. It is what
the demo, the tests and ``nodemend local`` share. Nothing in here is part of an installation on a real cluster.
"""
