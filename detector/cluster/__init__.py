"""The second source of reports: one process that watches the cluster, for what no node can say of itself."""
