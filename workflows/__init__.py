"""The deterministic runbooks and the pure decisions they take."""
