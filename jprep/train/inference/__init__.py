"""Inference with exported models: pipeline, client, server, protocol, decoding."""
