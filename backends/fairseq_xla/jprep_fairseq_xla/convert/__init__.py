"""Convert models between fairseq and transformers."""
