"""How a job lies on the devices, and fairseq's options for it; imports no framework."""
