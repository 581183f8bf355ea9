"""The DaemonSet process: reads the kernel log, judges lines, spools findings and delivers them."""
