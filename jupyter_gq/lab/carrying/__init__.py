"""The variables of a notebook's kernel that a job takes along: asked for, checked, kept until they are sent."""
