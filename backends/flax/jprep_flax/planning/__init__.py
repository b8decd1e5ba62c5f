"""How a job lies on the devices, and the commands that start it; imports no framework."""
