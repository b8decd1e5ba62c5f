"""Download the files that recipes name: resume interrupted downloads, verify checksums."""
