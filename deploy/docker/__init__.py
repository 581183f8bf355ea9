"""The images: a Dockerfile, and what goes into each."""
