"""FACE of authoring."""
