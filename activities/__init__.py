"""What touches the world: one module per act on Kubernetes, AWS, the incident record and Temporal itself."""
