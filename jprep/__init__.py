"""From a raw dump of Japanese text to a corpus, fast, lossless and resumable."""
