"""What people copy into the images of their training jobs."""
