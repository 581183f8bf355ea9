"""One module for each way in which a machine comes to be replaced; ``kind`` is the seam that they share."""
