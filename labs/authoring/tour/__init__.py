"""FACE of authoring.tour."""
