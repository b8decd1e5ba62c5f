"""The section of a corpus: what came in, what was dropped or changed and why, what the documents are like."""
