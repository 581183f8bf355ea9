"""Pictures of the Temporal UI for the documents: ``python -m tests.screenshots`` takes them anew."""
