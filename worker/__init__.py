"""The control-plane process: settings, clients, telemetry, health, and the Temporal worker itself."""
