"""Tests against servers of S3 and Google Cloud Storage on this machine."""
