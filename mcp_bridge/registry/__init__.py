"""The tools that are served: those of the code under the administrators' settings."""
