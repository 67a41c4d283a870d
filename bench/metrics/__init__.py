"""Metrics of images and of noise predictions, one family a file; README.md says what each is and what it is not."""
