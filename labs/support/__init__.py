"""FACE of support."""
