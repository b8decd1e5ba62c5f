"""Downloads of what recipes name: resumed, and checked."""
