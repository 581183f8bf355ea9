"""What is left of an incident: its record, where it goes, and how people read it."""
