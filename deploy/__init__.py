"""How Nodemend reaches a cluster: the chart, the AWS side, and the embedded stack in ``deploy.local``."""
