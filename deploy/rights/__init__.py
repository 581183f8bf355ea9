"""What Nodemend's components may call, derived from what they were seen to call."""
