"""What the planner decides; imports no framework."""
