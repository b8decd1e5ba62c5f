"""Finished outputs at URLs: upload them, and download them as inputs of the next step."""
