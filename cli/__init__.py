"""`nodemend`: one command for operators and developers."""
